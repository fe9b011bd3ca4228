#include "runtime/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "runtime/error.hpp"

namespace millrace {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  throw RunError(fmt::format("cannot write {}: {}.", path.string(), std::generic_category().message(error)));
}

int open_flags(OutputFile::Mode mode) {
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC;
  switch (mode) {
    case OutputFile::Mode::kTruncate:
      return flags | O_TRUNC;
    case OutputFile::Mode::kAppend:
      return flags | O_APPEND;
    case OutputFile::Mode::kCreate:
      break;
  }
  return flags | O_EXCL;
}

/// A rename is durable only once its folder is. Some file systems cannot do that; they order it themselves.
void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  static std::atomic<unsigned> count = 0;
  return path.parent_path() / fmt::format(".{}.{}.{}.tmp", path.filename().string(), ::getpid(), count++);
}

}  // namespace

OutputFile::OutputFile(std::filesystem::path path, Mode mode) : path_(std::move(path)) {
  constexpr mode_t kEveryone = 0666;  // less the user's umask
  do {
    descriptor_ = ::open(path_.c_str(), open_flags(mode), kEveryone);
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) fail(path_, errno);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      buffer_(std::move(other.buffer_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  try {
    flush();
  } catch (const RunError&) {
    // Whoever needs to know has called flush or close.
  }
  ::close(descriptor_);
}

void OutputFile::flush() {
  std::size_t written = 0;
  while (written < buffer_.size()) {
    const ssize_t count = ::write(descriptor_, buffer_.data() + written, buffer_.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const int error = count < 0 ? errno : ENOSPC;
      buffer_.erase(0, written);
      fail(path_, error);
    }
    written += static_cast<std::size_t>(count);
  }
  buffer_.clear();
}

void OutputFile::sync() {
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail(path_, errno);  // EINVAL: not a file on a disk
}

void OutputFile::close() {
  flush();
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) fail(path_, errno);
}

void write_text_atomically(const std::filesystem::path& path, std::string_view text) {
  const std::filesystem::path temporary = temporary_beside(path);
  try {
    OutputFile file(temporary, OutputFile::Mode::kTruncate);  // a killed process may have left one
    file.buffer() = text;
    file.flush();
    file.sync();
    file.close();
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail(path, errno);
  } catch (const RunError& error) {
    ::unlink(temporary.c_str());
    // The reader knows the file by its own name.
    std::string message = error.what();
    if (const auto at = message.find(temporary.string()); at != std::string::npos) {
      message.replace(at, temporary.string().size(), path.string());
    }
    throw RunError(message);
  }
  sync_folder(path.parent_path());
}

}  // namespace millrace
