// The only file that knows the TOML library.
#include "runtime/config_document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "runtime/config_lexer.hpp"
#include "runtime/config_schema.hpp"
#include "runtime/config_toml.hpp"
#include "runtime/error.hpp"

namespace millrace::configuration {
namespace {

RawValue raw_value(const toml::node& node) {
  RawValue raw;
  if (const auto* boolean = node.as_boolean()) {
    raw.kind = RawValue::Kind::kBoolean;
    raw.boolean = boolean->get();
  } else if (const auto* integer = node.as_integer()) {
    raw.kind = RawValue::Kind::kInteger;
    raw.integer = integer->get();
  } else if (const auto* number = node.as_floating_point()) {
    raw.kind = RawValue::Kind::kFloat;
    raw.number = number->get();
  } else if (const auto* string = node.as_string()) {
    raw.kind = RawValue::Kind::kString;
    raw.string = string->get();
  } else if (const auto* array = node.as_array()) {
    raw.kind = RawValue::Kind::kArray;
    for (const toml::node& element : *array) raw.elements.push_back(raw_value(element));
  } else if (!node.is_table()) {
    raw.kind = RawValue::Kind::kDate;
  }
  return raw;
}

std::string key_part(std::string_view part) {
  const bool bare = !part.empty() && std::ranges::all_of(part, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  return bare ? std::string(part) : quoted(part);
}

void collect(const toml::table& table, const std::string& prefix, std::vector<Assignment>& into) {
  for (const auto& [key, node] : table) {
    const toml::source_position at = key.source().begin;
    Assignment assignment{prefix + key_part(key.str()), raw_value(node), at.line, at.column};
    const std::string inner = assignment.key + '.';
    into.push_back(std::move(assignment));
    if (const toml::table* members = node.as_table()) collect(*members, inner, into);
  }
}

// The parser works from front to back, so it gives up on those beginnings of the text that hold the line.
std::size_t line_of_giving_up(std::string_view text) {
  std::vector<std::size_t> line_ends;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\n') line_ends.push_back(i + 1);
  if (line_ends.empty() || line_ends.back() < text.size()) line_ends.push_back(text.size());
  const auto still_parses = [&](std::size_t line_end) {
    try {
      (void)toml::parse(text.substr(0, line_end));
    } catch (const toml::parse_error&) {
    } catch (const ParserGaveUp&) {
      return false;
    }
    return true;
  };
  const auto faulty = std::partition_point(line_ends.begin(), line_ends.end() - 1, still_parses);
  return static_cast<std::size_t>(faulty - line_ends.begin()) + 1;
}

}  // namespace

std::vector<Assignment> parse_document(std::string_view text, std::string_view file_name) {
  check_text(text, file_name);
  std::vector<Assignment> assignments;
  try {
    const toml::table table = toml::parse(text);
    collect(table, "", assignments);
  } catch (const toml::parse_error& error) {
    std::string_view what = error.description();
    constexpr std::string_view kOpening = "Error while parsing ";
    if (what.starts_with(kOpening)) what.remove_prefix(kOpening.size());
    while (what.ends_with('.')) what.remove_suffix(1);
    throw UserError(fmt::format("{}:{}:{}: this is not TOML ({}).", printable(file_name, 400),
                                error.source().begin.line, error.source().begin.column,
                                printable(what, 300)));
  } catch (const ParserGaveUp&) {
    throw UserError(fmt::format("{}:{}: this line is not TOML (its header or its date is malformed).",
                                printable(file_name, 400), line_of_giving_up(text)));
  }
  std::ranges::stable_sort(assignments, [](const Assignment& a, const Assignment& b) {
    return a.line != b.line ? a.line < b.line : a.column < b.column;
  });
  return assignments;
}

std::string read_text_file(const std::string& path, std::size_t max_bytes) {
  const std::string name = printable(path, 400);
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found)
    throw UserError(fmt::format("{}: there is no such file.", name));
  if (std::filesystem::is_directory(status))
    throw UserError(fmt::format("{}: this is a folder; allowed: a TOML file.", name));
  if (error) throw UserError(fmt::format("{}: the file cannot be read ({}).", name, error.message()));
  if (!std::filesystem::is_regular_file(status))
    throw UserError(fmt::format("{}: this is not a regular file; allowed: a TOML file.", name));

  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw UserError(
        fmt::format("{}: the file cannot be read ({}).", name, std::generic_category().message(errno)));
  std::string text(max_bytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) throw UserError(fmt::format("{}: the file cannot be read to its end.", name));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > max_bytes)
    throw UserError(fmt::format("{}: the file is too large; allowed: at most {} bytes.", name, max_bytes));
  return text;
}

std::string describe(const RawValue& value) {
  switch (value.kind) {
    case RawValue::Kind::kBoolean:
      return value.boolean ? "the boolean true" : "the boolean false";
    case RawValue::Kind::kInteger:
      return fmt::format("the integer {}", value.integer);
    case RawValue::Kind::kFloat:
      return fmt::format("the float {}", float_text(value.number));
    case RawValue::Kind::kString:
      return fmt::format("the string \"{}\"", printable(value.string));
    case RawValue::Kind::kDate:
      return "a date or time";
    case RawValue::Kind::kArray:
      return fmt::format("an array of {}", value.elements.size());
    case RawValue::Kind::kTable:
      return "a table";
  }
  return {};
}

}  // namespace millrace::configuration
