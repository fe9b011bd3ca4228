// TOML text as a flat list of assignments with their places; no TOML library in the interface.
//
// Bytes that are not text, and nesting so deep that a parser's recursion could overflow the stack, are
// refused before parsing. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::configuration {

/// A value as it was written, before anyone asks what the key takes.
struct RawValue {
  enum class Kind { kBoolean, kInteger, kFloat, kString, kDate, kArray, kTable };
  Kind kind = Kind::kTable;
  bool boolean = false;
  std::int64_t integer = 0;
  double number = 0.0;
  std::string string;
  std::vector<RawValue> elements;  // of an array
};

/// One `key = value`, or the header of a table. `key` is the full dotted path; parts that need quotes have
/// them, so a part with a dot in it is never taken for two. Lines and columns count from 1; columns count
/// characters.
struct Assignment {
  std::string key;
  RawValue value;
  std::uint32_t line = 0;
  std::uint32_t column = 0;
};

/// All assignments of a TOML text in the order of their lines, tables before their members. Throws UserError
/// for anything that is not TOML; the sentence begins with `file_name` and the place.
std::vector<Assignment> parse_document(std::string_view text, std::string_view file_name);

/// The whole file, at most `max_bytes` long. Throws UserError if it is missing, no regular file, unreadable,
/// longer.
std::string read_text_file(const std::string& path, std::size_t max_bytes);

/// `text` in double quotes as a TOML string: control characters and bytes that are no UTF-8 are escaped (the
/// latter as `\xNN`, which no TOML text can hold), so that it always stays on one line.
std::string quoted(std::string_view text);

/// The same text without the quotes and cut to about `max_bytes`, for messages.
std::string printable(std::string_view text, std::size_t max_bytes = 80);

/// "the integer 3", "the string \"x\"", "an array", for messages.
std::string describe(const RawValue& value);

/// The position of the first byte that is not part of valid UTF-8, or npos.
std::size_t find_invalid_utf8(std::string_view text);

}  // namespace millrace::configuration
