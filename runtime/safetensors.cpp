#include "runtime/safetensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "runtime/error.hpp"

namespace millrace {
namespace {

struct TypeRow {
  TensorType type;
  std::string_view name;
  std::size_t bytes;
};

// In the order of the enumeration.
constexpr TypeRow kTypes[] = {{TensorType::kF32, "F32", 4}, {TensorType::kF64, "F64", 8},
                              {TensorType::kI32, "I32", 4}, {TensorType::kU32, "U32", 4},
                              {TensorType::kI64, "I64", 8}, {TensorType::kU64, "U64", 8},
                              {TensorType::kU8, "U8", 1}};

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::uint64_t kMaxBytes = std::numeric_limits<std::int64_t>::max();

/// Takes the JSON parser's events. Each nesting level that the format has is a state; anything deeper, or of
/// another kind, stops the parser at once.
class HeaderEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  SafetensorsHeader header;
  std::string reason;  // why the parser stopped

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return unexpected("a fractional number"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ == State::kShape) {
      if (entry().shape.size() == kMaxTensorRank) {
        return stop(fmt::format("tensor {} has more than {} dimensions", quoted_name(key_), kMaxTensorRank));
      }
      entry().shape.push_back(value);
      return true;
    }
    if (state_ != State::kOffsets || offsets_seen_ == 2) return unexpected("a number");
    (offsets_seen_++ == 0 ? entry().begin : entry().end) = value;
    return true;
  }

  bool string(string_t& value) override {
    if (state_ == State::kMetadata) {
      header.metadata[metadata_key_] = std::move(value);
      return true;
    }
    if (state_ != State::kTensor || field_ != kType) return unexpected("a string");
    entry().type = std::move(value);
    return true;
  }

  bool start_object(std::size_t) override {
    if (state_ == State::kStart) {
      state_ = State::kTop;
    } else if (state_ == State::kTop && key_ == kMetadataKey) {
      state_ = State::kMetadata;
    } else if (state_ == State::kTop) {
      state_ = State::kTensor;
      fields_seen_ = 0;
      header.entries.emplace_back().name = key_;
    } else {
      return unexpected("an object");
    }
    return true;
  }

  bool key(string_t& key) override {
    if (state_ == State::kTensor) return tensor_field(key);
    if (state_ == State::kMetadata) {
      if (!header.metadata.try_emplace(key).second) return twice(key);
      metadata_key_ = std::move(key);
      return true;
    }
    if (!names_.insert(key).second) return twice(key);
    key_ = std::move(key);
    return true;
  }

  bool end_object() override {
    if (state_ == State::kTensor && fields_seen_ != (kType | kShape | kOffsets)) {
      return stop(fmt::format("tensor {} lacks dtype, shape or data_offsets", quoted_name(key_)));
    }
    state_ = state_ == State::kTop ? State::kEnd : State::kTop;
    return true;
  }

  bool start_array(std::size_t) override {
    if (state_ != State::kTensor || field_ == kType) return unexpected("an array");
    state_ = field_ == kShape ? State::kShape : State::kOffsets;
    offsets_seen_ = 0;
    return true;
  }

  bool end_array() override {
    if (state_ == State::kOffsets && offsets_seen_ != 2) {
      return stop(fmt::format("data_offsets of tensor {} are not two numbers", quoted_name(key_)));
    }
    state_ = State::kTensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    return stop(fmt::format("the header is not valid JSON at its byte {}", position));
  }

 private:
  enum class State { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };
  enum Field : unsigned { kType = 1, kShape = 2, kOffsets = 4 };

  SafetensorsEntry& entry() { return header.entries.back(); }

  bool tensor_field(std::string_view name) {
    if (name == "dtype") {
      field_ = kType;
    } else if (name == "shape") {
      field_ = kShape;
    } else if (name == "data_offsets") {
      field_ = kOffsets;
    } else {
      return stop(fmt::format("tensor {} has an unknown field {}", quoted_name(key_), quoted_name(name)));
    }
    if ((fields_seen_ & field_) != 0) return twice(name);
    fields_seen_ |= field_;
    return true;
  }

  bool stop(std::string why) {
    reason = std::move(why);
    return false;
  }
  bool twice(std::string_view name) {
    return stop(fmt::format("the header names {} twice", quoted_name(name)));
  }
  bool unexpected(std::string_view what) {
    return stop(fmt::format("the header has {} where the format has none", what));
  }

  State state_ = State::kStart;
  std::string key_;           // of the top level: the tensor that is being read
  std::string metadata_key_;  // within __metadata__
  Field field_ = kType;       // of the tensor that is being read
  unsigned fields_seen_ = 0;
  unsigned offsets_seen_ = 0;
  std::unordered_set<std::string> names_;
};

[[noreturn]] void refuse(std::string_view file, std::string_view reason) {
  throw UserError(fmt::format("{} is damaged or not a Millrace checkpoint: {}.", file, reason));
}

void check_entry(const SafetensorsEntry& entry, std::string_view file) {
  const auto type = tensor_type_named(entry.type);
  if (!type) {
    refuse(file, fmt::format("tensor {} has the unknown type {}", quoted_name(entry.name),
                             quoted_name(entry.type)));
  }
  const auto bytes = tensor_bytes(*type, entry.shape);
  if (!bytes) {
    refuse(file, fmt::format("tensor {} has the impossible shape {}", quoted_name(entry.name),
                             to_string(entry.shape)));
  }
  if (entry.begin > entry.end || entry.end - entry.begin != *bytes) {
    refuse(file, fmt::format("tensor {} needs {} bytes, but its data_offsets are {} to {}",
                             quoted_name(entry.name), *bytes, entry.begin, entry.end));
  }
}

std::string json_text(std::string_view text) { return nlohmann::json(text).dump(); }

}  // namespace

std::size_t element_bytes(TensorType type) { return kTypes[static_cast<std::size_t>(type)].bytes; }

std::string_view to_string(TensorType type) { return kTypes[static_cast<std::size_t>(type)].name; }

std::optional<TensorType> tensor_type_named(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

std::string to_string(const TensorShape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::optional<std::uint64_t> tensor_bytes(TensorType type, const TensorShape& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::uint64_t bytes = element_bytes(type);
  for (const std::uint64_t size : shape) {
    if (size > kMaxBytes / bytes) return std::nullopt;
    bytes *= size;
  }
  return bytes;
}

SafetensorsHeader parse_safetensors_header(std::string_view json, std::string_view file) {
  // The JSON parser would skip a byte-order mark and blanks; the format has neither at the start.
  if (!json.starts_with('{')) refuse(file, "there is no safetensors header");
  // A zero byte would end its input early.
  if (json.find('\0') != std::string_view::npos) refuse(file, "the header has a zero byte");
  HeaderEvents events;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &events)) refuse(file, events.reason);
  return std::move(events.header);
}

void check_safetensors_layout(const SafetensorsHeader& header, std::uint64_t data_bytes,
                              std::string_view file) {
  std::vector<const SafetensorsEntry*> order;
  std::uint64_t last = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    check_entry(entry, file);
    order.push_back(&entry);
    last = std::max(last, entry.end);
  }
  if (last > data_bytes) {
    throw UserError(
        fmt::format("{} is truncated: its tensors need {} bytes, it has {}.", file, last, data_bytes));
  }
  std::sort(order.begin(), order.end(), [](const SafetensorsEntry* a, const SafetensorsEntry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::uint64_t reached = 0;
  for (const SafetensorsEntry* entry : order) {
    if (entry->begin != reached) {
      refuse(file, fmt::format("tensor {} starts at byte {} of the data {} byte {}", quoted_name(entry->name),
                               entry->begin,
                               entry->begin < reached ? "inside another, which ends at" : "with a hole after",
                               reached));
    }
    reached = entry->end;
  }
  if (reached != data_bytes) {
    refuse(file, fmt::format("{} bytes follow the last tensor", data_bytes - reached));
  }
}

std::string render_safetensors_header(const SafetensorsHeader& header) {
  std::string text = fmt::format("{{\"{}\":{{", kMetadataKey);
  for (std::string_view comma = ""; const auto& [key, value] : header.metadata) {
    text += fmt::format("{}{}:{}", std::exchange(comma, ","), json_text(key), json_text(value));
  }
  text += '}';
  for (const SafetensorsEntry& entry : header.entries) {
    text += fmt::format(R"(,{}:{{"dtype":{},"shape":[{}],"data_offsets":[{},{}]}})", json_text(entry.name),
                        json_text(entry.type), fmt::join(entry.shape, ","), entry.begin, entry.end);
  }
  text += '}';
  const std::uint64_t beyond = (kSafetensorsLengthBytes + text.size()) % kSafetensorsDataAlignment;
  if (beyond != 0) text.append(kSafetensorsDataAlignment - beyond, ' ');
  return text;
}

bool is_valid_utf8(std::string_view text) {
  try {
    static_cast<void>(json_text(text));
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

std::string quoted_name(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  constexpr bool kEscapeNonAscii = true;
  const auto quote = [text](std::size_t bytes) {
    return nlohmann::json(text.substr(0, bytes))
        .dump(-1, ' ', kEscapeNonAscii, nlohmann::json::error_handler_t::replace);
  };
  std::size_t shown = std::min(text.size(), kLongest);
  std::string quoted = quote(shown);
  // Escapes have up to six characters for one.
  for (; quoted.size() > kLongest + 2; quoted = quote(shown)) shown /= 2;
  return quoted + (shown == text.size() ? "" : "...");
}

}  // namespace millrace
