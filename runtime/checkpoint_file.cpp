// Reading and writing of checkpoint files; the temporary file that makes a write atomic.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>
#include <optional>
#include <system_error>

#include "runtime/checkpoint.hpp"
#include "runtime/checkpoint_folder.hpp"
#include "runtime/checkpoint_format.hpp"
#include "runtime/error.hpp"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporarySuffix = ".checkpoint.tmp";

std::string reason_of(int error) { return std::generic_category().message(error); }

/// An open descriptor.
class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags, mode_t mode = 0) {
    do {
      value_ = ::open(path.c_str(), flags | O_CLOEXEC, mode);
    } while (value_ < 0 && errno == EINTR);
    if (value_ < 0) error_ = errno;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  [[nodiscard]] int get() const { return value_; }
  /// 0 if it is open, else the reason.
  [[nodiscard]] int error() const { return error_; }

 private:
  int value_ = -1;
  int error_ = 0;
};

void read_from_file(int descriptor, std::uint64_t offset, std::span<std::byte> to, std::string_view file) {
  while (!to.empty()) {
    const ssize_t count = ::pread(descriptor, to.data(), to.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw UserError(fmt::format("cannot read {}: {}.", file, reason_of(errno)));
    if (count == 0) throw UserError(fmt::format("{} is truncated: it shrank while it was read.", file));
    to = to.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

}  // namespace

Checkpoint read_checkpoint(const fs::path& path) {
  const std::string file = path.string();
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  const Descriptor descriptor(path, O_RDONLY | O_NONBLOCK);
  if (descriptor.error() == ENOENT) throw UserError(fmt::format("there is no file {}.", file));
  struct stat status = {};
  const int error =
      descriptor.error() != 0 || ::fstat(descriptor.get(), &status) == 0 ? descriptor.error() : errno;
  if (error != 0) throw UserError(fmt::format("cannot read {}: {}.", file, reason_of(error)));
  if (S_ISDIR(status.st_mode)) throw UserError(fmt::format("{} is a folder, not a checkpoint file.", file));
  if (!S_ISREG(status.st_mode)) {
    throw UserError(fmt::format("{} is no regular file, so no checkpoint.", file));
  }
  const auto read_at = [&](std::uint64_t offset, std::span<std::byte> to) {
    read_from_file(descriptor.get(), offset, to, file);
  };
  return parse_checkpoint(static_cast<std::uint64_t>(status.st_size), read_at, file);
}

namespace {

[[noreturn]] void cannot_write(const fs::path& path, int error) {
  throw RunError(fmt::format("cannot write {}: {}.", path.string(), reason_of(error)));
}

/// A write beyond the user's limit of file size (ulimit -f) is an error to report. By default the system
/// would also send a signal that ends the process; it goes to the writing thread, so that thread can take it.
class FileSizeSignalBlock {
 public:
  FileSizeSignalBlock() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signals_, &previous_);
  }
  FileSizeSignalBlock(const FileSizeSignalBlock&) = delete;
  FileSizeSignalBlock& operator=(const FileSizeSignalBlock&) = delete;
  ~FileSizeSignalBlock() {
    if (sigismember(&previous_, SIGXFSZ) == 1) return;
    const timespec at_once = {};
    while (sigtimedwait(&signals_, nullptr, &at_once) == SIGXFSZ) continue;
    pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
  }

 private:
  sigset_t signals_ = {};
  sigset_t previous_ = {};
};

/// Makes a rename in the folder of `path` durable. Some file systems refuse with EINVAL: they order it
/// themselves.
void sync_folder(const fs::path& path) {
  const fs::path folder = path.parent_path();
  const Descriptor descriptor(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY);
  if (descriptor.error() == EACCES) return;  // writable, not readable: nothing to do about it
  if (descriptor.error() != 0) cannot_write(path, descriptor.error());
  if (::fsync(descriptor.get()) != 0 && errno != EINVAL) cannot_write(path, errno);
}

fs::path temporary_beside(const fs::path& target) {
  std::uint64_t number = 0;  // random, because process ids repeat between machines and containers
  if (::getrandom(&number, sizeof number, 0) != sizeof number) cannot_write(target, errno);
  return target.parent_path() /
         fmt::format(".{}.{:016x}{}", target.filename().string(), number, kTemporarySuffix);
}

/// A file that will replace `target`, or vanish. It is locked as long as its writer lives, by which
/// remove_stale_temporaries knows the living from the dead.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& target) : target_(target) {
    do {
      path_ = temporary_beside(target_);
      file_.emplace(path_, O_WRONLY | O_CREAT | O_EXCL, 0666);
      if (file_->error() != 0) cannot_write(target_, file_->error());
    } while (!lock());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (!renamed_) ::unlink(path_.c_str());
  }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::write(file_->get(), bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) cannot_write(target_, count < 0 ? errno : ENOSPC);
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
  }

  /// Renames while the file is still open and locked; after fsync, close has nothing left to report.
  void replace_target() {
    if (::fsync(file_->get()) != 0 || ::rename(path_.c_str(), target_.c_str()) != 0) {
      cannot_write(target_, errno);
    }
    renamed_ = true;
  }

 private:
  /// False if somebody took the new file for a leftover and removed it before it was locked. Where the file
  /// system has no locks, leftovers stay.
  bool lock() {
    while (::flock(file_->get(), LOCK_EX) != 0 && errno == EINTR) continue;
    struct stat status = {};
    return ::fstat(file_->get(), &status) != 0 || status.st_nlink != 0;
  }

  fs::path target_;
  fs::path path_;
  std::optional<Descriptor> file_;
  bool renamed_ = false;
};

}  // namespace

void write_checkpoint(const Checkpoint& checkpoint, const fs::path& path) {
  const CheckpointImage image = render_checkpoint(checkpoint);
  const FileSizeSignalBlock no_signal;
  {
    TemporaryFile file(path);
    file.write(std::as_bytes(std::span(image.head)));
    for (const std::span<const std::byte> piece : image.data) file.write(piece);
    file.replace_target();
  }
  sync_folder(path);
}

void link_checkpoint(const fs::path& from, const Checkpoint& checkpoint, const fs::path& path) {
  const fs::path temporary = temporary_beside(path);
  if (::link(from.c_str(), temporary.c_str()) != 0) return write_checkpoint(checkpoint, path);
  const int error = ::rename(temporary.c_str(), path.c_str()) == 0 ? 0 : errno;
  ::unlink(temporary.c_str());  // a rename between two names of one file does nothing
  if (error != 0) return write_checkpoint(checkpoint, path);
  sync_folder(path);
}

std::size_t remove_stale_temporaries(const fs::path& folder) {
  std::size_t removed = 0;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with('.') || !name.ends_with(kTemporarySuffix)) continue;
    const Descriptor file(at->path(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
    if (file.error() != 0 || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) continue;
    if (::unlink(at->path().c_str()) == 0) ++removed;
  }
  return removed;
}

}  // namespace millrace
