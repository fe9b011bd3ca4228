// The folder of a run, and where in it each thing lies.
//
// Invariant: while a RunFolder lives, no other one has the same folder, in this process or another (an
// advisory lock on the folder, which the system drops when a process ends, however it ends). Thread safety:
// immutable after construction; creation is safe against other threads and processes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "runtime/output_file.hpp"

namespace millrace {

class RunFolder {
 public:
  /// Makes `{root}/{env}__{experiment}__{seed}__{YYYYMMDD-HHMMSS}` (local time), with -2, -3 … behind it
  /// where that exists, also when several processes start within one second. Throws UserError if it cannot be
  /// made.
  static RunFolder create(const std::filesystem::path& root, std::string_view env_id,
                          std::string_view experiment, std::uint64_t seed);
  /// Makes just this folder. Throws UserError if it holds anything already, or cannot be made or written.
  static RunFolder at(const std::filesystem::path& path);
  /// A run to go on with; temporary files that a killed process left are removed. Throws UserError if it is
  /// no folder, cannot be written, or is still in use (after waiting for a second).
  static RunFolder existing(const std::filesystem::path& path);

  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&&) = delete;
  RunFolder(const RunFolder&) = delete;
  ~RunFolder();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path config() const { return path_ / "config.toml"; }
  [[nodiscard]] std::filesystem::path metrics_jsonl() const { return path_ / "metrics.jsonl"; }
  [[nodiscard]] std::filesystem::path metrics_csv() const { return path_ / "metrics.csv"; }
  [[nodiscard]] std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  [[nodiscard]] std::filesystem::path summary() const { return path_ / "summary.json"; }
  [[nodiscard]] std::filesystem::path learning_curve() const { return path_ / "learning_curve.svg"; }

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  [[nodiscard]] bool lock();

  std::filesystem::path path_;
  int lock_ = -1;  // descriptor of the folder itself
};

}  // namespace millrace
