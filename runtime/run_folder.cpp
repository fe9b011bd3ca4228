// The folder of a run; see run_folder.hpp.
#include "runtime/run_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/error.hpp"

namespace millrace {
namespace {

/// Keeps a name inside one folder, whatever characters it has, and clear of hidden files and options.
std::string file_name_of(std::string_view text) {
  constexpr std::size_t kLongest = 100;  // two of them, seed, time and suffix stay below the usual 255
  std::string name;
  for (const char c : text.substr(0, kLongest)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    name += plain ? c : '_';
  }
  if (name.empty()) return "_";
  if (name.front() == '.' || name.front() == '-') name.front() = '_';
  return name;
}

std::string local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof(text), "%Y%m%d-%H%M%S", &local);
  return text;
}

[[noreturn]] void cannot_make(const std::filesystem::path& path, const std::string& reason) {
  throw UserError(fmt::format("The run folder cannot be made: {}: {}.", path.string(), reason));
}

[[noreturn]] void not_empty(const std::filesystem::path& path) {
  throw UserError(
      fmt::format("--run-dir: {} exists and is not an empty folder; name a new one, or use `rl_run resume` "
                  "to go on with a run.",
                  path.string()));
}

void make_parents(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  // A path with a slash at its end may report an error although all is there.
  std::error_code ignored;
  if (error && !std::filesystem::is_directory(path, ignored)) cannot_make(path, error.message());
}

/// False if it exists already; of several processes one gets true.
bool make_folder(const std::filesystem::path& path) {
  if (::mkdir(path.c_str(), 0777) == 0) return true;
  if (errno == EEXIST) return false;
  cannot_make(path, std::strerror(errno));
}

/// What write_text_atomically had begun when its process was killed.
void remove_temporary_files(const std::filesystem::path& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (name.starts_with(".") && name.ends_with(".tmp")) std::filesystem::remove(entry->path(), ignored);
  }
}

}  // namespace

RunFolder RunFolder::create(const std::filesystem::path& root, std::string_view env_id,
                            std::string_view experiment, std::uint64_t seed) {
  make_parents(root);
  const std::string name =
      fmt::format("{}__{}__{}__{}", file_name_of(env_id), file_name_of(experiment), seed, local_time());
  std::filesystem::path path = root / name;
  for (int n = 2; !make_folder(path); ++n) path = root / fmt::format("{}-{}", name, n);
  RunFolder folder(path);
  if (!folder.lock()) cannot_make(path, "another process took it");
  make_folder(folder.checkpoints());
  return folder;
}

RunFolder RunFolder::at(const std::filesystem::path& path) {
  // "runs/a/" ends in an empty part; the folder meant is "runs/a".
  const std::filesystem::path exact = path.has_filename() ? path : path.parent_path();
  if (exact.has_parent_path()) make_parents(exact.parent_path());
  std::error_code error;
  if (!make_folder(exact) && !std::filesystem::is_directory(exact, error)) not_empty(exact);
  RunFolder folder(exact);
  const bool empty = std::filesystem::is_empty(exact, error);
  if (error) cannot_make(exact, error.message());
  // Where there are no locks, of several processes that saw it empty the second mkdir still lets one through.
  if (!empty || !folder.lock() || !make_folder(folder.checkpoints())) not_empty(exact);
  return folder;
}

RunFolder RunFolder::existing(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    throw UserError(fmt::format("{} is not a run folder.", path.string()));
  }
  if (::access(path.c_str(), W_OK | X_OK) != 0) {
    throw UserError(
        fmt::format("The run folder {} cannot be written: {}.", path.string(), std::strerror(errno)));
  }
  RunFolder folder(path);
  if (!folder.lock()) {
    throw UserError(fmt::format("The run folder {} is in use: the run still goes on.", path.string()));
  }
  remove_temporary_files(path);
  return folder;
}

bool RunFolder::lock() {
  lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0) return true;  // what comes next will say why
  // A killed process lets go a moment after the signal; whoever resumes its run at once waits for that.
  constexpr int kAttempts = 40;
  constexpr auto kPause = std::chrono::milliseconds(25);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (::flock(lock_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
      return true;  // or there are no locks here
    std::this_thread::sleep_for(kPause);
  }
  return false;
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

RunFolder::~RunFolder() {
  if (lock_ >= 0) ::close(lock_);
}

}  // namespace millrace
