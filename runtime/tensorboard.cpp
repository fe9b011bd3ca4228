// TensorBoard event files; see tensorboard.hpp.
#include "runtime/tensorboard.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <system_error>

namespace millrace {
namespace {

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1u) != 0 ? 0x82F63B78u : 0u);
    table[i] = value;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kCrcTable = make_crc_table();

/// TFRecord stores checksums rotated and offset, so that a checksum of checksums stays useful.
std::uint32_t masked(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u; }

// Protobuf wire format: key = field number * 8 + type (0 varint, 1 eight bytes, 2 length-delimited, 5 four
// bytes).
void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7Fu) | 0x80u);
  out += static_cast<char>(value);
}
void put_fixed(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>((value >> (8 * i)) & 0xFFu);
}
void put_text(std::string& out, char key, std::string_view text) {
  out += key;
  put_varint(out, text.size());
  out += text;
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Event{wall_time = 1, step = 2}.
std::string event_head(std::uint64_t step) {
  std::string event;
  event += '\x09';
  put_fixed(event, std::bit_cast<std::uint64_t>(unix_seconds()), 8);
  event += '\x10';
  put_varint(event, step);
  return event;
}

constexpr std::string_view kEventFile = "events.out.tfevents.";

/// The time in the name of an event file, 0 for other files.
std::int64_t time_in_name(const std::string& name) {
  std::int64_t time = 0;
  if (name.starts_with(kEventFile)) {
    std::from_chars(name.data() + kEventFile.size(), name.data() + name.size(), time);
  }
  return time;
}

/// Viewers read the files of a folder in the order of their names, so a new one's time is later than all
/// others', also when a run is resumed within the second or on a machine whose clock is behind.
std::filesystem::path event_file(const std::filesystem::path& folder) {
  char host[256] = "host";
  ::gethostname(host, sizeof(host) - 1);
  auto time = static_cast<std::int64_t>(unix_seconds());
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    time = std::max(time, time_in_name(entry->path().filename().string()) + 1);
  }
  return folder / fmt::format("{}{:010}.{}.{}", kEventFile, time, host, ::getpid());
}

}  // namespace

std::uint32_t crc32c(std::string_view data) {
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const char c : data) crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xFFu];
  return ~crc;
}

TensorboardWriter::TensorboardWriter(const std::filesystem::path& folder,
                                     std::optional<std::uint64_t> resumed_step)
    : file_(event_file(folder), OutputFile::Mode::kCreate) {
  std::string version = event_head(0);
  put_text(version, '\x1A', "brain.Event:2");  // Event.file_version = 3
  append(version);
  if (resumed_step) {
    // Event.session_log = 7, SessionLog.status = 1, START = 1: later steps of earlier files are void.
    std::string start = event_head(*resumed_step + 1);
    put_text(start, '\x3A', std::string_view("\x08\x01", 2));
    append(start);
  }
}

void TensorboardWriter::scalar(std::string_view tag, std::uint64_t step, double value) {
  std::string entry;  // Summary.Value{tag = 1, simple_value = 2}
  put_text(entry, '\x0A', tag);
  entry += '\x15';
  put_fixed(entry, std::bit_cast<std::uint32_t>(static_cast<float>(value)), 4);
  std::string summary;  // Summary{value = 1}
  put_text(summary, '\x0A', entry);
  std::string event = event_head(step);
  put_text(event, '\x2A', summary);  // Event.summary = 5
  append(event);
}

void TensorboardWriter::append(const std::string& event) {
  std::string length;
  put_fixed(length, event.size(), 8);
  std::string& out = file_.buffer();
  out += length;
  put_fixed(out, masked(crc32c(length)), 4);
  out += event;
  put_fixed(out, masked(crc32c(event)), 4);
}

}  // namespace millrace
