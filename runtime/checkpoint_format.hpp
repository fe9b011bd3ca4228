// The bytes of a checkpoint file, apart from where they come from and go to. docs/checkpoints.md describes
// them.
//
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint.hpp"

namespace millrace {

/// A file's bytes: `head`, then `data` piece by piece. The pieces are views of the checkpoint's tensors.
struct CheckpointImage {
  std::string head;
  std::vector<std::span<const std::byte>> data;
};
[[nodiscard]] CheckpointImage render_checkpoint(const Checkpoint& checkpoint);

/// Fills `to` with the file's bytes from `offset` on; the range lies within the file. May throw UserError.
using ReadAt = std::function<void(std::uint64_t offset, std::span<std::byte> to)>;

/// Reads and verifies a file of `file_bytes` bytes. `file` is for messages. Throws UserError.
[[nodiscard]] Checkpoint parse_checkpoint(std::uint64_t file_bytes, const ReadAt& read_at,
                                          std::string_view file);

}  // namespace millrace
