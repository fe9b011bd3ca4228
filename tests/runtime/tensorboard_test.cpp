// Event files are read back twice: by a small reader of the wire format here, and by the package tensorboard
// where Python has it (MILLRACE_PYTHON names another interpreter than python3).
#include "runtime/tensorboard.hpp"

#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "runtime/error.hpp"

namespace millrace {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; --i)
    value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
  return value;
}

/// One message's fields by number; of repeated ones the last.
struct Message {
  std::map<int, std::uint64_t> numbers;
  std::map<int, std::string> texts;
};

std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.at(0));
    bytes.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
}

Message parse(std::string_view bytes) {
  Message message;
  while (!bytes.empty()) {
    const std::uint64_t key = take_varint(bytes);
    const int field = static_cast<int>(key >> 3);
    switch (key & 7) {
      case 0:
        message.numbers[field] = take_varint(bytes);
        break;
      case 1:
        message.numbers[field] = little_endian(bytes.substr(0, 8));
        bytes.remove_prefix(8);
        break;
      case 5:
        message.numbers[field] = little_endian(bytes.substr(0, 4));
        bytes.remove_prefix(4);
        break;
      case 2: {
        const std::size_t size = take_varint(bytes);
        message.texts[field] = bytes.substr(0, size);
        bytes.remove_prefix(size);
        break;
      }
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
        return message;
    }
  }
  return message;
}

/// CRC-32C bit by bit, straight from the polynomial.
std::uint32_t slow_crc32c(std::string_view data) {
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const char c : data) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82F63B78u : crc >> 1;
  }
  return ~crc;
}

std::uint32_t masked(std::string_view data) { return std::rotr(slow_crc32c(data), 15) + 0xA282EAD8u; }

/// The messages of an event file, whose framing and checksums must be right.
std::vector<Message> events_of(const fs::path& path) {
  const std::string bytes = read(path);
  std::string_view left = bytes;
  std::vector<Message> events;
  while (!left.empty()) {
    if (left.size() < 16) {
      ADD_FAILURE() << "a torn record";
      break;
    }
    const std::size_t size = little_endian(left.substr(0, 8));
    EXPECT_EQ(little_endian(left.substr(8, 4)), masked(left.substr(0, 8)));
    EXPECT_EQ(little_endian(left.substr(12 + size, 4)), masked(left.substr(12, size)));
    events.push_back(parse(left.substr(12, size)));
    left.remove_prefix(16 + size);
  }
  return events;
}

class TensorboardTest : public testing::Test {
 protected:
  TensorboardTest() {
    std::string pattern = (fs::temp_directory_path() / "millrace-events-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
  }
  ~TensorboardTest() override { fs::remove_all(root_); }

  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(root_)) found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    return found;
  }
  fs::path root_;
};

TEST(Crc32c, KnownAnswers) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  // RFC 3720, B.4.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  std::string rising(32, '\0');
  for (std::size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<char>(i);
  EXPECT_EQ(crc32c(rising), 0x46DD794Eu);
  for (std::size_t size = 0; size < 70; ++size) {
    const std::string text = std::string(size, 'm') + "illrace";
    EXPECT_EQ(crc32c(text), slow_crc32c(text));
  }
}

TEST_F(TensorboardTest, AFileBeginsWithItsVersion) {
  { const TensorboardWriter writer(root_, std::nullopt); }
  ASSERT_EQ(files().size(), 1u);
  const std::vector<Message> events = events_of(files()[0]);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].texts.at(3), "brain.Event:2");
  const double wall_time = std::bit_cast<double>(events[0].numbers.at(1));
  EXPECT_GT(wall_time, 1.7e9);  // seconds since 1970, so later than 2023
  EXPECT_LT(wall_time, 1e11);   // and not milliseconds
}

TEST_F(TensorboardTest, ScalarsKeepTagStepAndValue) {
  const std::vector<std::uint64_t> steps = {0, 1, 127, 128, 16384, 2'000'000, (1ull << 63) - 1};
  {
    TensorboardWriter writer(root_, std::nullopt);
    for (const std::uint64_t step : steps) {
      writer.scalar("charts/episodic_return", step, static_cast<double>(step) * 0.5);
    }
    writer.scalar(std::string(300, 't'), 5, std::nan(""));
  }
  const std::vector<Message> events = events_of(files().at(0));
  ASSERT_EQ(events.size(), steps.size() + 2);
  const auto value_of = [](const Message& event) { return parse(parse(event.texts.at(5)).texts.at(1)); };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Message value = value_of(events[i + 1]);
    EXPECT_EQ(events[i + 1].numbers.at(2), steps[i]);
    EXPECT_EQ(value.texts.at(1), "charts/episodic_return");
    EXPECT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(value.numbers.at(2))),
              static_cast<float>(steps[i]) * 0.5f);
  }
  const Message last = value_of(events.back());
  EXPECT_EQ(last.texts.at(1), std::string(300, 't'));
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(static_cast<std::uint32_t>(last.numbers.at(2)))));
}

TEST_F(TensorboardTest, AResumedFileStartsASessionBehindTheStep) {
  { const TensorboardWriter writer(root_, 2000); }
  const std::vector<Message> events = events_of(files().at(0));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].numbers.at(2), 2001u);
  EXPECT_EQ(parse(events[1].texts.at(7)).numbers.at(1), 1u);
}

TEST_F(TensorboardTest, ALaterFileComesLaterInNameOrder) {
  std::vector<fs::path> order;
  for (int i = 0; i < 4; ++i) {
    { const TensorboardWriter writer(root_, std::nullopt); }
    const std::vector<fs::path> now = files();
    ASSERT_EQ(now.size(), order.size() + 1);
    order.push_back(now.back());
    EXPECT_EQ(now, order);
  }
  // Also behind one from a clock that is ahead.
  const fs::path ahead = root_ / "events.out.tfevents.9000000000.elsewhere.1";
  std::ofstream(ahead) << "";
  { const TensorboardWriter writer(root_, std::nullopt); }
  EXPECT_EQ(files()[4], ahead);
  EXPECT_EQ(files().size(), 6u);
}

TEST_F(TensorboardTest, AMissingFolderIsARunError) {
  EXPECT_THROW(TensorboardWriter(root_ / "none", std::nullopt), RunError);
}

std::string python() {
  const char* other = std::getenv("MILLRACE_PYTHON");
  return other != nullptr ? other : "python3";
}

std::string output_of(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string output;
  std::array<char, 4096> buffer{};
  for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    output.append(buffer.data(), n);
  ::pclose(pipe);
  return output;
}

TEST_F(TensorboardTest, ThePackageReadsWhatARunAndItsResumptionWrote) {
  if (output_of(python() + " -c 'import tensorboard; print(1)' 2>/dev/null") != "1\n") {
    GTEST_SKIP() << "Python has no package tensorboard";
  }
  {
    TensorboardWriter writer(root_, std::nullopt);
    for (std::uint64_t step = 100; step <= 500; step += 100) writer.scalar("a/b", step, 1.0);
  }
  {
    TensorboardWriter writer(root_, 300);
    for (std::uint64_t step = 400; step <= 600; step += 100) writer.scalar("a/b", step, 2.0);
  }
  const std::string program =
      "import sys\n"
      "from tensorboard.backend.event_processing.event_accumulator import EventAccumulator\n"
      "events = EventAccumulator(sys.argv[1])\n"
      "events.Reload()\n"
      "print([(e.step, e.value) for e in events.Scalars(\"a/b\")] if \"a/b\" in events.Tags()[\"scalars\"] "
      "else\n"
      "      [(e.step, round(float(e.tensor_proto.float_val[0]))) for e in events.Tensors(\"a/b\")])\n";
  EXPECT_EQ(output_of(python() + " -c '" + program + "' '" + root_.string() + "' 2>/dev/null"),
            "[(100, 1.0), (200, 1.0), (300, 1.0), (400, 2.0), (500, 2.0), (600, 2.0)]\n");
}

}  // namespace
}  // namespace millrace
