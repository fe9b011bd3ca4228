#include "runtime/checkpoint_format.hpp"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "runtime/error.hpp"

namespace millrace {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::string_view kFormatName = "millrace-checkpoint";
constexpr std::size_t kChecksumDigits = 32;
constexpr std::string_view kNoChecksum = "00000000000000000000000000000000";
static_assert(kNoChecksum.size() == kChecksumDigits);

/// XXH3-128 over a sequence of pieces.
class Checksum {
 public:
  Checksum() { XXH3_128bits_reset(&state_); }
  void add(std::span<const std::byte> bytes) { XXH3_128bits_update(&state_, bytes.data(), bytes.size()); }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  [[nodiscard]] std::string digits() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(&state_);
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  XXH3_state_t state_;
};

/// Where the checksum's digits stand in a header. A quote within a JSON string follows a backslash, so a
/// quote after a brace or comma opens a key; and a key of this name with a string can only be the metadata's.
std::size_t find_checksum(std::string_view header, std::string_view digits) {
  for (const char before : {'{', ','}) {
    const std::string field = fmt::format("{}\"checksum\":\"{}\"", before, digits);
    const std::size_t at = header.find(field);
    if (at != std::string_view::npos) return at + field.size() - 1 - digits.size();
  }
  return std::string_view::npos;
}

std::string length_bytes(std::uint64_t length) {
  std::string bytes(kSafetensorsLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, bytes.size());
  return bytes;
}

}  // namespace

/// One file on its way into a checkpoint.
class CheckpointParser {
 public:
  CheckpointParser(std::uint64_t file_bytes, const ReadAt& read_at, std::string_view file)
      : file_bytes_(file_bytes), read_at_(read_at), file_(file) {}

  Checkpoint parse() {
    std::string text = read_header();
    SafetensorsHeader header = parse_safetensors_header(text, file_);
    require_format(header);
    const std::uint64_t data_start = kSafetensorsLengthBytes + text.size();
    check_safetensors_layout(header, file_bytes_ - data_start, file_);

    const std::string digits = header.metadata["checksum"];
    const std::size_t at = find_checksum(text, digits);
    if (digits.size() != kChecksumDigits || at == std::string::npos) damaged("it has no checksum");
    text.replace(at, kChecksumDigits, kNoChecksum);
    checksum_.add(length_bytes(text.size()));
    checksum_.add(text);
    read_tensors(header, data_start);
    if (checksum_.digits() != digits) damaged("its checksum does not match its content");

    for (const char* own : {"format", "format_version", "checksum"}) header.metadata.erase(own);
    checkpoint_.metadata_ = std::move(header.metadata);
    checkpoint_.origin_ = file_;
    return std::move(checkpoint_);
  }

 private:
  [[noreturn]] void damaged(std::string_view reason) const {
    throw UserError(fmt::format("{} is damaged: {}.", file_, reason));
  }

  std::string read_header() const {
    if (file_bytes_ == 0) throw UserError(fmt::format("{} is empty.", file_));
    if (file_bytes_ < kSafetensorsLengthBytes) {
      throw UserError(fmt::format("{} is truncated or not a Millrace checkpoint: it has {} bytes only.",
                                  file_, file_bytes_));
    }
    std::uint64_t length = 0;
    read_at_(0, std::as_writable_bytes(std::span(&length, 1)));
    const std::uint64_t rest = file_bytes_ - kSafetensorsLengthBytes;
    if (length > rest || length > kMaxSafetensorsHeaderBytes) {
      throw UserError(fmt::format(
          "{} is truncated or not a Millrace checkpoint: its header would have {} bytes, where {} can be.",
          file_, length, std::min(rest, kMaxSafetensorsHeaderBytes)));
    }
    std::string text(length, '\0');
    read_at_(kSafetensorsLengthBytes, std::as_writable_bytes(std::span(text)));
    return text;
  }

  void require_format(const SafetensorsHeader& header) const {
    const auto format = header.metadata.find("format");
    if (format == header.metadata.end() || format->second != kFormatName) {
      throw UserError(fmt::format(
          "{} is a safetensors file but not a Millrace checkpoint: its metadata lack the format \"{}\".",
          file_, kFormatName));
    }
    const auto version = header.metadata.find("format_version");
    if (version == header.metadata.end()) damaged("it has no format version");
    const std::string& digits = version->second;
    if (digits.empty() || digits.front() == '0' ||
        digits.find_first_not_of("0123456789") != std::string::npos) {
      damaged("its format version is no number");
    }
    if (digits != fmt::to_string(kCheckpointFormatVersion)) {
      throw UserError(fmt::format("{} cannot be read: format {} is newer than this Millrace reads ({}).",
                                  file_, digits.substr(0, 20), kCheckpointFormatVersion));
    }
  }

  void read_tensors(const SafetensorsHeader& header, std::uint64_t data_start) {
    std::vector<std::size_t> order(header.entries.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return header.entries[a].begin < header.entries[b].begin;
    });
    checkpoint_.tensors_.resize(order.size());
    try {
      for (const std::size_t i : order) {
        const SafetensorsEntry& entry = header.entries[i];
        Tensor& tensor = checkpoint_.tensors_[i];
        tensor = {entry.name, *tensor_type_named(entry.type), entry.shape,
                  TensorBytes(entry.end - entry.begin)};
        read_and_sum(data_start + entry.begin, tensor.bytes);
      }
    } catch (const std::bad_alloc&) {
      throw UserError(fmt::format("{} does not fit in memory: its tensors need {} bytes.", file_,
                                  file_bytes_ - data_start));
    }
  }

  /// In pieces that are still in the cache when they are summed.
  void read_and_sum(std::uint64_t offset, std::span<std::byte> to) {
    constexpr std::size_t kPiece = std::size_t{1} << 18;
    for (std::size_t done = 0; done < to.size();) {
      const std::span<std::byte> piece = to.subspan(done, std::min(kPiece, to.size() - done));
      read_at_(offset + done, piece);
      checksum_.add(piece);
      done += piece.size();
    }
  }

  std::uint64_t file_bytes_;
  const ReadAt& read_at_;
  std::string file_;
  Checksum checksum_;
  Checkpoint checkpoint_;
};

Checkpoint parse_checkpoint(std::uint64_t file_bytes, const ReadAt& read_at, std::string_view file) {
  return CheckpointParser(file_bytes, read_at, file).parse();
}

Checkpoint parse_checkpoint(std::span<const std::byte> bytes, std::string_view file) {
  const auto read_at = [bytes](std::uint64_t offset, std::span<std::byte> to) {
    const auto from = bytes.subspan(offset, to.size());
    std::copy(from.begin(), from.end(), to.begin());
  };
  return parse_checkpoint(bytes.size(), read_at, file);
}

CheckpointImage render_checkpoint(const Checkpoint& checkpoint) {
  SafetensorsHeader header;
  header.metadata = checkpoint.metadata();
  header.metadata["format"] = kFormatName;
  header.metadata["format_version"] = fmt::to_string(kCheckpointFormatVersion);
  header.metadata["checksum"] = kNoChecksum;

  const std::vector<Tensor>& tensors = checkpoint.tensors();
  for (const Tensor& tensor : tensors) {
    header.entries.push_back({tensor.name, std::string(to_string(tensor.type)), tensor.shape, 0, 0});
  }
  // Wide elements first: this keeps every tensor aligned without holes, which the format forbids.
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return element_bytes(tensors[a].type) > element_bytes(tensors[b].type);
  });
  CheckpointImage image;
  for (std::uint64_t offset = 0; const std::size_t i : order) {
    header.entries[i].begin = offset;
    header.entries[i].end = offset += tensors[i].bytes.size();
    image.data.emplace_back(tensors[i].bytes);
  }

  const std::string text = render_safetensors_header(header);
  image.head = length_bytes(text.size()) + text;
  Checksum checksum;
  checksum.add(image.head);
  for (const std::span<const std::byte> piece : image.data) checksum.add(piece);
  image.head.replace(find_checksum(image.head, kNoChecksum), kChecksumDigits, checksum.digits());
  return image;
}

}  // namespace millrace
