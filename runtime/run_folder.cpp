// The folder of a run; see run_folder.hpp.
#include "runtime/run_folder.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <string>
#include <system_error>

#include "runtime/error.hpp"

namespace millrace {
namespace {

/// Keeps a name inside one folder, whatever characters it has.
std::string file_name_of(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '_' || c == '.';
    name += plain ? c : '_';
  }
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

void make_parents(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    throw UserError(fmt::format("The run folder cannot be made: {}: {}.", path.string(), error.message()));
  }
}

/// False if it exists already.
bool make_folder(const std::filesystem::path& path) {
  if (::mkdir(path.c_str(), 0777) == 0) return true;
  if (errno == EEXIST) return false;
  throw UserError(fmt::format("The run folder cannot be made: {}: {}.", path.string(), std::strerror(errno)));
}

}  // namespace

RunFolder RunFolder::create(const std::filesystem::path& root, std::string_view env_id, std::string_view experiment,
                            std::uint64_t seed) {
  make_parents(root);
  const std::string name =
      fmt::format("{}__{}__{}__{}", file_name_of(env_id), file_name_of(experiment), seed, local_time());
  std::filesystem::path path = root / name;
  for (int n = 2; !make_folder(path); ++n) path = root / fmt::format("{}-{}", name, n);
  make_parents(path / "checkpoints");
  return RunFolder(path);
}

RunFolder RunFolder::at(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error) &&
      (!std::filesystem::is_directory(path, error) || !std::filesystem::is_empty(path, error))) {
    throw UserError(fmt::format(
        "--run-dir: {} exists and is not an empty folder; name a new one, or use `rl_run resume` to go on with a run.",
        path.string()));
  }
  make_parents(path / "checkpoints");
  return existing(path);
}

RunFolder RunFolder::existing(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    throw UserError(fmt::format("{} is not a run folder.", path.string()));
  }
  if (::access(path.c_str(), W_OK) != 0) {
    throw UserError(fmt::format("The run folder {} cannot be written: {}.", path.string(), std::strerror(errno)));
  }
  return RunFolder(path);
}

}  // namespace millrace
