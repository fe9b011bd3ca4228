// What the checkpoint tests share: a folder that vanishes, files as bytes, contents that follow from a
// number.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint.hpp"

namespace millrace::test {

namespace fs = std::filesystem;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "millrace-checkpoint-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { fs::remove_all(path_); }
  [[nodiscard]] const fs::path& path() const { return path_; }
  [[nodiscard]] fs::path operator/(std::string_view name) const { return path_ / name; }

 private:
  fs::path path_;
};

inline std::string bytes_of_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void make_file(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

inline Checkpoint parse_text(const std::string& bytes) {
  return parse_checkpoint(std::as_bytes(std::span(bytes)), "memory");
}

template <typename T>
void put_random(Checkpoint& checkpoint, std::mt19937_64& random, const std::string& name, TensorShape shape) {
  const std::span<T> elements = checkpoint.add<T>(name, std::move(shape));
  for (T& element : elements) {
    const std::uint64_t bits = random();  // any bits, NaN among them
    std::memcpy(&element, &bits, sizeof element);
  }
}

/// Every type, odd sizes, scalar and empty tensors, text of all kinds; `scale` elements or so in the largest.
inline Checkpoint sample_checkpoint(std::uint64_t seed, std::uint64_t scale = 5) {
  std::mt19937_64 random(seed);
  Checkpoint checkpoint;
  put_random<std::uint8_t>(checkpoint, random, "flags", {scale, 3});
  put_random<float>(checkpoint, random, "q/weight0", {3, scale});
  put_random<double>(checkpoint, random, "wide", {scale});
  put_random<std::int32_t>(checkpoint, random, "signed", {1, 1, 7});
  put_random<std::uint32_t>(checkpoint, random, "unsigned", {});
  put_random<float>(checkpoint, random, "nothing", {4, 0, 2});
  put_random<std::int64_t>(checkpoint, random, "counter \"of\" \xc3\xa9pisodes\n", {2});
  put_random<std::uint64_t>(checkpoint, random, "keys", {1});
  checkpoint.set_metadata("seed", std::to_string(seed));
  checkpoint.set_metadata("config", "[env]\nid = \"CartPole-v1\"\t# \xe2\x82\xac \x1b\\");
  return checkpoint;
}

/// One sentence: it ends in a full stop, and has one line of reasonable length.
inline void expect_sentence(const std::string& message) {
  EXPECT_TRUE(message.ends_with('.')) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 600u) << message;
}

/// The message of the Error that `call` throws; a failure of the test if it throws none, or another.
template <typename Error, typename Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    expect_sentence(error.what());
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "threw another error: " << error.what();
    return "";
  }
  ADD_FAILURE() << "threw nothing";
  return "";
}

inline void expect_contains(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message << "\n  lacks: " << part;
}

}  // namespace millrace::test
