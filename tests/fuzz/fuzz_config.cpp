// libFuzzer target: any bytes as a configuration and overrides. A text is either refused with one sentence,
// or gives a configuration that passes its own checks and whose resolved text reads back equal.
//
// The input's lines after a byte 0x01 are overrides; all before is the file.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/config_reader.hpp"
#include "runtime/config_text.hpp"
#include "runtime/error.hpp"

namespace {

using namespace millrace;

std::vector<ParameterField> fields_by_id(const std::string& id) {
  if (id.size() > 4) throw UserError("there is no such environment.");
  return {{"length", ParameterType::kFloat, 0.1f, 0.1, 0.7, "m"},
          {"walls", ParameterType::kInt, 3, -10, 1e9, "how many"},
          {"slippery", ParameterType::kBool, 1, 0, 1, "ice"},
          {"offset", ParameterType::kFloat, 0, -INFINITY, INFINITY, "anything"}};
}

void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const std::size_t split = input.find('\x01');
  std::vector<std::string> overrides;
  for (std::size_t at = split; at != std::string::npos;) {
    const std::size_t end = input.find('\n', at + 1);
    overrides.push_back(input.substr(at + 1, end == std::string::npos ? end : end - at - 1));
    at = end;
  }
  ExperimentConfig config;
  try {
    config = parse_config(input.substr(0, split), "fuzz.toml", overrides, fields_by_id);
  } catch (const UserError& error) {
    const std::string sentence = error.what();
    require(sentence.ends_with('.') && sentence.find('\n') == std::string::npos, sentence);
    return 0;
  }
  validate_config(config);
  const std::string text = to_toml(config);
  require(parse_config(text, "fuzz.toml", {}, fields_by_id) == config, text);
  return 0;
}
