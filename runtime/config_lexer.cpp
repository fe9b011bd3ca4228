// The look at the bytes before the TOML parser sees them: is it text, and does it nest within reason.
#include "runtime/config_lexer.hpp"

#include <fmt/format.h>

#include "runtime/config_document.hpp"
#include "runtime/error.hpp"

namespace millrace::configuration {
namespace {

// A configuration needs 2 levels of either.
constexpr int kMaxDots = 16;
constexpr int kMaxBrackets = 32;

// Length of the well-formed UTF-8 sequence at `position` (RFC 3629: no overlong forms, no surrogates), or 0.
std::size_t sequence_length(std::string_view text, std::size_t position) {
  const auto byte = [&](std::size_t offset) -> unsigned {
    return position + offset < text.size() ? static_cast<unsigned char>(text[position + offset]) : 0u;
  };
  const auto continues = [&](std::size_t offset) { return (byte(offset) & 0xC0u) == 0x80u; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const bool overlong = lead == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = lead == 0xED && byte(1) > 0x9F;
    return continues(1) && continues(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool overlong = lead == 0xF0 && byte(1) < 0x90;
    const bool beyond = lead == 0xF4 && byte(1) > 0x8F;
    return continues(1) && continues(2) && continues(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

class Scanner {
 public:
  Scanner(std::string_view text, std::string_view file_name) : text_(text), file_name_(file_name) {}

  void check_bytes() const {
    for (std::size_t i = 0; i < text_.size();) {
      const std::size_t length = sequence_length(text_, i);
      const unsigned value = static_cast<unsigned char>(text_[i]);
      if (length == 0) fail(i, fmt::format("the byte 0x{:02X} is not part of UTF-8 text", value));
      const bool line_end = text_[i] == '\r' && i + 1 < text_.size() && text_[i + 1] == '\n';
      const bool control = (value < 0x20 && value != '\t' && value != '\n' && !line_end) || value == 0x7F;
      if (control)
        fail(i, fmt::format("the control character 0x{:02X} cannot stand in a configuration", value));
      i += length;
    }
  }

  // A run of dots ends at a byte that cannot stand within a dotted key. Strings and comments are skipped
  // exactly as TOML reads them; in other text the parser stops at the first fault, and up to that both agree.
  void check_nesting() {
    while (position_ < text_.size()) {
      const char c = text_[position_];
      if (c == '"' || c == '\'') {
        skip_string(c);
        continue;
      }
      if (c == '#') skip_line();
      if (c == '.') count(++dots_, kMaxDots, "dots in one key");
      if (c == '[' || c == '{') count(++brackets_, kMaxBrackets, "brackets within one another");
      if ((c == ']' || c == '}') && brackets_ > 0) --brackets_;
      if (std::string_view("=,[]{}\n#").find(c) != std::string_view::npos) dots_ = 0;
      ++position_;
    }
  }

 private:
  void count(int number, int limit, const char* what) const {
    if (number > limit)
      fail(position_, fmt::format("more than {} {}; allowed: at most {}", limit, what, limit));
  }

  // Leaves the position on the last character before the newline.
  void skip_line() {
    while (position_ + 1 < text_.size() && text_[position_ + 1] != '\n') ++position_;
  }

  void skip_string(char quote) {
    const std::string triple(3, quote);
    if (text_.substr(position_).starts_with(triple)) return skip_long_string(quote, triple);
    ++position_;
    while (position_ < text_.size() && text_[position_] != '\n') {
      const char c = text_[position_];
      position_ += quote == '"' && c == '\\' ? 2 : 1;
      if (c == quote) return;
    }
  }

  // Up to two more quotes right before the closing three belong to the content.
  void skip_long_string(char quote, const std::string& triple) {
    position_ += 3;
    while (position_ < text_.size()) {
      if (text_.substr(position_).starts_with(triple)) {
        position_ += 3;
        for (int extra = 0; extra < 2 && position_ < text_.size() && text_[position_] == quote; ++extra)
          ++position_;
        return;
      }
      position_ += quote == '"' && text_[position_] == '\\' ? 2 : 1;
    }
  }

  [[noreturn]] void fail(std::size_t at, const std::string& what) const {
    std::uint32_t line = 1;
    std::uint32_t column = 1;
    for (std::size_t i = 0; i < at; ++i) {
      if (text_[i] == '\n') {
        ++line;
        column = 1;
      } else if ((static_cast<unsigned char>(text_[i]) & 0xC0u) != 0x80u) {
        ++column;
      }
    }
    throw UserError(fmt::format("{}:{}:{}: {}.", printable(file_name_, 400), line, column, what));
  }

  std::string_view text_;
  std::string_view file_name_;
  std::size_t position_ = 0;
  int dots_ = 0;
  int brackets_ = 0;
};

}  // namespace

void check_text(std::string_view text, std::string_view file_name) {
  Scanner scanner(text, file_name);
  scanner.check_bytes();
  scanner.check_nesting();
}

std::size_t find_invalid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = sequence_length(text, i);
    if (length == 0) return i;
    i += length;
  }
  return std::string_view::npos;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = sequence_length(text, i);
    const char c = text[i];
    const unsigned value = static_cast<unsigned char>(c);
    if (length == 0)
      out += fmt::format("\\x{:02X}", value);
    else if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (value < 0x20 || value == 0x7F)
      out += fmt::format("\\u{:04X}", value);
    else
      out += text.substr(i, length);
    i += length == 0 ? 1 : length;
  }
  return out + '"';
}

std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = std::max<std::size_t>(sequence_length(text, i), 1);
    if (out.size() >= max_bytes) return out + "...";
    const std::string_view character = text.substr(i, length);
    if (character == "\"" || character == "\\") {
      out += character;
    } else {
      const std::string one = quoted(character);
      out += std::string_view(one).substr(1, one.size() - 2);
    }
    i += length;
  }
  return out;
}

}  // namespace millrace::configuration
