// The header of a safetensors file: what is accepted, what is refused, and that nothing hostile costs much.
#include "runtime/safetensors.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>

#include "checkpoint_samples.hpp"
#include "runtime/error.hpp"

namespace millrace {
namespace {

using test::expect_contains;
using test::message_of;

std::string refusal(const std::string& json) {
  return message_of<UserError>([&] { (void)parse_safetensors_header(json, "a file"); });
}

std::string layout_refusal(const SafetensorsHeader& header, std::uint64_t data_bytes) {
  return message_of<UserError>([&] { check_safetensors_layout(header, data_bytes, "a file"); });
}

TEST(Safetensors, TypesHaveTheFormatsNamesAndSizes) {
  const std::pair<std::string, std::size_t> expected[] = {{"F32", 4}, {"F64", 8}, {"I32", 4}, {"U32", 4},
                                                          {"I64", 8}, {"U64", 8}, {"U8", 1}};
  for (const auto& [name, bytes] : expected) {
    const auto type = tensor_type_named(name);
    ASSERT_TRUE(type.has_value()) << name;
    EXPECT_EQ(to_string(*type), name);
    EXPECT_EQ(element_bytes(*type), bytes);
  }
  for (const char* unknown : {"", "f32", "F16", "BF16", "BOOL", "F32 ", "U"}) {
    EXPECT_FALSE(tensor_type_named(unknown).has_value()) << unknown;
  }
}

TEST(Safetensors, ShapeProductsAreCheckedForOverflow) {
  EXPECT_EQ(tensor_bytes(TensorType::kF32, {}), 4u);
  EXPECT_EQ(tensor_bytes(TensorType::kF64, {3, 5}), 120u);
  EXPECT_EQ(tensor_bytes(TensorType::kU8, {~0ull, 0, ~0ull}), 0u);
  EXPECT_EQ(tensor_bytes(TensorType::kU8, {(1ull << 63) - 1}), (1ull << 63) - 1);
  EXPECT_FALSE(tensor_bytes(TensorType::kU8, {1ull << 63}).has_value());
  EXPECT_FALSE(tensor_bytes(TensorType::kF32, {1ull << 61}).has_value());
  EXPECT_FALSE(tensor_bytes(TensorType::kF64, {1ull << 32, 1ull << 32}).has_value());
  EXPECT_FALSE(tensor_bytes(TensorType::kU8, {1ull << 32, 1ull << 32, 3}).has_value());
}

TEST(Safetensors, RenderedHeadersReadBackTheSame) {
  SafetensorsHeader header;
  header.metadata = {{"a", "1"}, {"quote\"", "\\ \n \x01 \x7f \xe2\x82\xac"}, {"", ""}};
  header.entries = {{"b", "F32", {2, 3}, 8, 32}, {"a", "U64", {}, 0, 8}, {"\xc3\xa9/\"", "U8", {0}, 32, 32}};
  const std::string text = render_safetensors_header(header);
  EXPECT_EQ((kSafetensorsLengthBytes + text.size()) % kSafetensorsDataAlignment, 0u);
  const SafetensorsHeader same = parse_safetensors_header(text, "a file");
  EXPECT_EQ(same.metadata, header.metadata);
  ASSERT_EQ(same.entries.size(), header.entries.size());
  for (std::size_t i = 0; i < header.entries.size(); ++i) {
    EXPECT_EQ(same.entries[i].name, header.entries[i].name);
    EXPECT_EQ(same.entries[i].type, header.entries[i].type);
    EXPECT_EQ(same.entries[i].shape, header.entries[i].shape);
    EXPECT_EQ(same.entries[i].begin, header.entries[i].begin);
    EXPECT_EQ(same.entries[i].end, header.entries[i].end);
  }
  check_safetensors_layout(same, 32, "a file");
}

TEST(Safetensors, ForeignSpellingsOfAValidHeaderAreRead) {
  const SafetensorsHeader header = parse_safetensors_header(
      "{ \"w\" : {\"data_offsets\":[0,4],\n\"shape\":[1],\t\"dtype\":\"BF16\"}, \"__metadata__\": {} }  ",
      "a file");
  ASSERT_EQ(header.entries.size(), 1u);
  EXPECT_EQ(header.entries[0].type, "BF16");  // known or not is for the layout check
  EXPECT_EQ(parse_safetensors_header("{}", "a file").entries.size(), 0u);
}

TEST(Safetensors, MalformedHeadersAreRefusedWithASentence) {
  const std::string tensor = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  const std::pair<std::string, std::string> cases[] = {
      {"", "no safetensors header"},
      {" {}", "no safetensors header"},
      {"\xef\xbb\xbf{}", "no safetensors header"},
      {"[]", "no safetensors header"},
      {"{", "not valid JSON"},
      {"{} {}", "not valid JSON"},
      {std::string("{}\0 ", 4), "zero byte"},
      {std::string("{\0}", 3), "zero byte"},
      {"{\"a\":{" + tensor + "},}", "not valid JSON"},
      {"{\"\xff\":{" + tensor + "}}", "not valid JSON"},
      {"{\"\xc0\x80\":{" + tensor + "}}", "not valid JSON"},
      {"{\"\\ud800\":{" + tensor + "}}", "not valid JSON"},
      {"{\"__metadata__\":{\"a\":\"\xed\xa0\x80\"}}", "not valid JSON"},
      {"{/**/}", "not valid JSON"},
      {"{\"a\":1}", "a number"},
      {"{\"a\":\"x\"}", "a string"},
      {"{\"a\":null}", "null"},
      {"{\"a\":true}", "a boolean"},
      {"{\"a\":[]}", "an array"},
      {"{\"a\":{}}", "lacks dtype"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", "lacks dtype"},
      {"{\"a\":{" + tensor + ",\"extra\":1}}", "unknown field \"extra\""},
      {"{\"a\":{" + tensor + ",\"dtype\":\"F32\"}}", "\"dtype\" twice"},
      {"{\"a\":{" + tensor + "},\"a\":{" + tensor + "}}", "\"a\" twice"},
      {"{\"a\":{" + tensor + "},\"\\u0061\":{" + tensor + "}}", "\"a\" twice"},
      {"{\"__metadata__\":{},\"__metadata__\":{}}", "\"__metadata__\" twice"},
      {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"1\"}}", "\"k\" twice"},
      {"{\"__metadata__\":{\"k\":1}}", "a number"},
      {"{\"__metadata__\":{\"k\":{}}}", "an object"},
      {"{\"__metadata__\":[]}", "an array"},
      {R"({"a":{"dtype":["F32"]}})", "an array"},
      {R"({"a":{"dtype":{}}})", "an object"},
      {R"({"a":{"shape":1}})", "a number"},
      {R"({"a":{"shape":[[1]]}})", "an array"},
      {R"({"a":{"shape":["1"]}})", "a string"},
      {R"({"a":{"shape":[-1]}})", "a negative number"},
      {R"({"a":{"shape":[1.0]}})", "a fractional number"},
      {R"({"a":{"shape":[18446744073709551616]}})", "a fractional number"},
      {R"({"a":{"shape":[1e999]}})", "not valid JSON"},
      {R"({"a":{"shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}})", "more than 16 dimensions"},
      {R"({"a":{"data_offsets":[0]}})", "not two numbers"},
      {R"({"a":{"data_offsets":[0,1,2]}})", "a number"},
      {"{\"line\\nbreak\":{}}", "\"line\\nbreak\""},
  };
  for (const auto& [json, reason] : cases) {
    SCOPED_TRACE(json);
    const std::string message = refusal(json);
    expect_contains(message, reason);
    expect_contains(message, "a file is damaged or not a Millrace checkpoint: ");
  }
}

TEST(Safetensors, DeepNestingAndLongNamesAreHarmless) {
  const std::size_t depth = 3'000'000;
  refusal("{\"a\":" + std::string(depth, '['));
  std::string objects = "{\"a\":";
  for (std::size_t i = 0; i < depth; ++i) objects += "{\"a\":";
  refusal(objects);
  refusal("{\"" + std::string(depth, 'n') + "\":1, \"" + std::string(depth, 'n') + "\":1}");
}

TEST(Safetensors, NamesInMessagesAreShortAndPrintable) {
  EXPECT_EQ(quoted_name(""), "\"\"");
  EXPECT_EQ(quoted_name("a\nb\"\xc3\xa9"), "\"a\\nb\\\"\\u00e9\"");
  std::string longest(82, 'a');
  longest.front() = longest.back() = '"';
  EXPECT_EQ(quoted_name(std::string(80, 'a')), longest);
  EXPECT_EQ(quoted_name(std::string(81, 'a')), longest + "...");
  for (const char* unit : {"\x7f", "\xff", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\n"}) {
    std::string text;
    for (int i = 0; i < 200; ++i) text += unit;
    const std::string quoted = quoted_name(text);
    EXPECT_LE(quoted.size(), 85u);
    EXPECT_TRUE(std::all_of(quoted.begin(), quoted.end(), [](char c) { return c >= ' ' && c < 127; }))
        << quoted;
  }
}

TEST(Safetensors, LayoutsAreRefusedForEveryFaultOfTheirs) {
  const auto header = [](std::vector<SafetensorsEntry> entries) {
    return SafetensorsHeader{{}, std::move(entries)};
  };
  check_safetensors_layout(header({}), 0, "a file");
  check_safetensors_layout(header({{"a", "F32", {1}, 0, 4}, {"b", "U8", {3}, 4, 7}}), 7, "a file");
  expect_contains(layout_refusal(header({{"a", "F16", {2}, 0, 4}}), 4), "unknown type \"F16\"");
  expect_contains(layout_refusal(header({{"a", "F32", {2}, 0, 4}}), 4), "needs 8 bytes");
  expect_contains(layout_refusal(header({{"a", "F32", {1}, 4, 0}}), 4), "needs 4 bytes");
  expect_contains(layout_refusal(header({{"a", "F32", {1ull << 62}, 0, 0}}), 4), "impossible shape");
  expect_contains(layout_refusal(header({{"a", "F32", {1}, ~0ull - 4, ~0ull}}), 4), "truncated");
  expect_contains(layout_refusal(header({{"a", "F32", {1}, 0, 4}}), 3),
                  "truncated: its tensors need 4 bytes, it has 3");
  expect_contains(layout_refusal(header({{"a", "F32", {1}, 0, 4}}), 5), "1 bytes follow");
  expect_contains(layout_refusal(header({}), 5), "5 bytes follow");
  expect_contains(layout_refusal(header({{"a", "F32", {1}, 0, 4}, {"b", "F32", {1}, 0, 4}}), 4),
                  "inside another");
  expect_contains(layout_refusal(header({{"a", "F32", {1}, 0, 4}, {"b", "U8", {4}, 2, 6}}), 6),
                  "inside another");
  expect_contains(layout_refusal(header({{"a", "F32", {1}, 0, 4}, {"b", "U8", {2}, 5, 7}}), 7), "hole");
  expect_contains(layout_refusal(header({{"a", "F32", {1}, 1, 5}}), 5), "hole");
  expect_contains(layout_refusal(header({{"a", "F32", {0}, 2, 2}}), 0), "truncated");
}

// A layout is right exactly if every byte belongs to one tensor: counted byte by byte here.
TEST(Safetensors, LayoutCheckAgreesWithBruteForce) {
  std::mt19937 random(3);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    const std::uint64_t data_bytes = random() % 7;
    SafetensorsHeader header;
    std::array<int, 7> owners = {};
    bool in_range = true;
    for (unsigned i = 0, count = random() % 4; i < count; ++i) {
      const std::uint64_t begin = random() % 7;
      const std::uint64_t size = 1 + random() % 4;
      header.entries.push_back(
          {std::string(1, static_cast<char>('a' + i)), "U8", {size}, begin, begin + size});
      in_range = in_range && begin + size <= data_bytes;
      for (std::uint64_t at = begin; at < std::min<std::uint64_t>(begin + size, 7); ++at) ++owners[at];
    }
    bool right = in_range;
    for (std::uint64_t at = 0; at < data_bytes; ++at) right = right && owners[at] == 1;
    bool taken = true;
    try {
      check_safetensors_layout(header, data_bytes, "a file");
    } catch (const UserError&) {
      taken = false;
    }
    ASSERT_EQ(taken, right) << render_safetensors_header(header) << " of " << data_bytes;
    accepted += taken;
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace millrace
