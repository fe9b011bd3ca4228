// Scalars as TensorBoard event files: records framed as in TFRecord (length, masked CRC-32C, data, masked
// CRC-32C), each one protobuf message `Event`.
//
// Thread safety: thread-compatible; one thread at a time for each object.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/output_file.hpp"

namespace millrace {

/// CRC-32C (Castagnoli polynomial, RFC 3720) of `data`.
[[nodiscard]] std::uint32_t crc32c(std::string_view data);

class TensorboardWriter {
 public:
  /// Makes a new event file in `folder`. With `resumed_step`, viewers forget what older files have behind
  /// that step. Throws RunError.
  TensorboardWriter(const std::filesystem::path& folder, std::optional<std::uint64_t> resumed_step);

  /// A value that is not finite is written as it is; viewers mark it.
  void scalar(std::string_view tag, std::uint64_t step, double value);
  /// Throws RunError.
  void flush() { file_.flush(); }

 private:
  void append(const std::string& event);
  OutputFile file_;
};

}  // namespace millrace
