// The header of a safetensors file: which tensors it holds, of which type and shape, and where their bytes
// lie. The file is an 8-byte little-endian header length, a JSON header, and the data. Format:
// https://github.com/huggingface/safetensors#format
//
// This header is text from outside, so the reader trusts nothing: no recursion, no allocation beyond a small
// multiple of the text, every sum and product checked.
//
// Thread safety: pure functions and plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

/// The element types that a checkpoint may hold.
enum class TensorType : std::uint8_t { kF32, kF64, kI32, kU32, kI64, kU64, kU8 };

[[nodiscard]] std::size_t element_bytes(TensorType type);
/// The format's own name: "F32".
[[nodiscard]] std::string_view to_string(TensorType type);
[[nodiscard]] std::optional<TensorType> tensor_type_named(std::string_view name);

/// Sizes, slowest first; empty for a scalar.
using TensorShape = std::vector<std::uint64_t>;

/// "[2, 3]"
[[nodiscard]] std::string to_string(const TensorShape& shape);
/// Bytes of a tensor, or nullopt if they don't fit in 63 bits.
[[nodiscard]] std::optional<std::uint64_t> tensor_bytes(TensorType type, const TensorShape& shape);

/// One tensor as the header describes it. Bytes are [begin, end) of the data.
struct SafetensorsEntry {
  std::string name;
  std::string type;
  TensorShape shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsEntry> entries;  // in the header's order, which need not be the data's
};

inline constexpr std::uint64_t kSafetensorsLengthBytes = 8;
/// As in the reference implementation.
inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;
inline constexpr std::size_t kMaxTensorRank = 16;
/// The header is padded so that the data starts at a multiple of this in the file.
inline constexpr std::uint64_t kSafetensorsDataAlignment = 64;

/// The header's syntax: one JSON object of tensors, each with exactly `dtype`, `shape`, `data_offsets`, and
/// perhaps `__metadata__` of strings; valid UTF-8, no name twice. Types and ranges are not looked at, so that
/// the header of a newer format can be read far enough to say so. `file` is for messages only.
/// Throws UserError.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::string_view json, std::string_view file);

/// The header's meaning: known types, byte ranges that fit type and shape and cover `data_bytes` without hole
/// or overlap. Throws UserError; data that ends too early is called truncated.
void check_safetensors_layout(const SafetensorsHeader& header, std::uint64_t data_bytes,
                              std::string_view file);

/// The JSON text, `__metadata__` first, then the entries in their order, padded with blanks for
/// kSafetensorsDataAlignment. REQUIRES: valid UTF-8, no name twice.
[[nodiscard]] std::string render_safetensors_header(const SafetensorsHeader& header);

[[nodiscard]] bool is_valid_utf8(std::string_view text);

/// `text` in double quotes on one line, cut to at most 80 characters or so, for messages.
[[nodiscard]] std::string quoted_name(std::string_view text);

}  // namespace millrace
