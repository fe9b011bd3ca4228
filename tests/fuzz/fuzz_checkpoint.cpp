// libFuzzer target: any bytes as a checkpoint file. A file is refused with one sentence, or it loads, and
// then what it holds, rendered anew, loads equal.
//
// The input's first byte chooses what the rest is: 0 a whole file; 1 a JSON header and, after a byte 0x01,
// the data, made into a file here; else edits to a valid file, five bytes each (position, new value, length
// cut off the end), of which none may pass unseen unless the checksum is made to fit, as odd first bytes ask.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include "runtime/checkpoint.hpp"
#include "runtime/checkpoint_format.hpp"
#include "runtime/error.hpp"

namespace {

using namespace millrace;

void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

std::string file_of(const Checkpoint& checkpoint) {
  const CheckpointImage image = render_checkpoint(checkpoint);
  std::string bytes = image.head;
  for (const auto piece : image.data) bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  return bytes;
}

const std::string& valid_file() {
  static const std::string bytes = [] {
    Checkpoint checkpoint;
    const float weights[] = {1, 2, 3, 4, 5, 6};
    const std::uint8_t flags[] = {1, 0, 1};
    checkpoint.put<std::uint8_t>("flags", {3}, flags);
    checkpoint.put<float>("q/weight0", {2, 3}, weights);
    checkpoint.put<std::uint64_t>("steps", 17);
    checkpoint.put<double>("nothing", {0}, {});
    checkpoint.set_metadata("env_id", "CartPole-v1\n\x1b");
    return file_of(checkpoint);
  }();
  return bytes;
}

std::string with_header(const std::string& input) {
  const std::size_t split = input.find('\x01');
  const std::string header = input.substr(0, split);
  const std::uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  bytes += header;
  if (split != std::string::npos) bytes += input.substr(split + 1);
  return bytes;
}

std::string with_edits(std::string_view edits) {
  std::string bytes = valid_file();
  for (; edits.size() >= 5; edits.remove_prefix(5)) {
    const auto at = [&](std::size_t i) {
      return static_cast<std::size_t>(static_cast<unsigned char>(edits[i]));
    };
    bytes[(at(0) + 256 * at(1)) % bytes.size()] = edits[2];
    if (at(3) == 255) bytes.resize(bytes.size() - at(4) % bytes.size());
  }
  return bytes;
}

/// Makes the checksum fit, where the file has a place for one, so that the faults behind it are reached.
void fit_checksum(std::string& bytes) {
  constexpr std::size_t kDigits = 32;
  const std::string field = "\"checksum\":\"";
  const std::size_t at = bytes.find(field) + field.size();
  if (bytes.find(field) == std::string::npos || bytes.size() < at + kDigits) return;
  bytes.replace(at, kDigits, kDigits, '0');
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  char digits[kDigits + 1];
  std::snprintf(digits, sizeof digits, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  bytes.replace(at, kDigits, digits);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string input(reinterpret_cast<const char*>(data + 1), size - 1);
  const bool edited = data[0] > 1;
  std::string bytes = data[0] == 0 ? input : edited ? with_edits(input) : with_header(input);
  const bool fitted = data[0] % 2 == 1;
  if (fitted) fit_checksum(bytes);
  Checkpoint checkpoint;
  try {
    checkpoint = parse_checkpoint(std::as_bytes(std::span(bytes)), "fuzz");
  } catch (const UserError& error) {
    const std::string sentence = error.what();
    require(sentence.ends_with('.') && sentence.find('\n') == std::string::npos && sentence.size() < 1000,
            sentence);
    require(bytes != valid_file(), "a valid file is refused: " + sentence);
    return 0;
  }
  require(!edited || fitted || bytes == valid_file(), "an edit passes unseen");
  const std::string again = file_of(checkpoint);
  require(parse_checkpoint(std::as_bytes(std::span(again)), "fuzz") == checkpoint,
          "does not read back equal");
  return 0;
}
