// The options that all benchmarks have; see options.hpp.
#define CXXOPTS_VECTOR_DELIMITER '\0'

#include "bench/options.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cxxopts.hpp>
#include <exception>
#include <fstream>

#include "runtime/error.hpp"
#include "runtime/registry.hpp"

namespace millrace::bench {
namespace {

int integer(const std::string& option, const std::string& text, int low, int high) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    throw UserError(fmt::format("--{}: \"{}\" is not allowed; give an integer from {} to {}.", option, text, low, high));
  }
  return value;
}

Isa isa_named(const std::string& name) {
  if (name == "auto") return best_isa();
  for (const Isa isa : {Isa::kReference, Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (to_string(isa) == name) return isa;
  }
  throw UserError(fmt::format("--isa: \"{}\" is not allowed; give auto, reference, baseline, avx2 or avx512.", name));
}

}  // namespace

std::optional<Options> parse_options(int argc, char** argv, const char* name) {
  cxxopts::Options options(name, "Steps per second, with the limit and the whole recipe.");
  const auto text = [](const char* value) { return cxxopts::value<std::string>()->default_value(value); };
  options.add_options()("env", "environment", text("CartPole-v1"))("num-envs", "instances", text("2048"))(
      "device", "cpu", text("cpu"))("threads", "workers", text("1"))(
      "isa", "auto, reference, baseline, avx2, avx512", text("auto"))("repeats", "7 to 1000", text("9"))(
      "hidden", "widths of the hidden layers, as 64,64", text("64,64"))(
      "config", "bench_train, bench_rollout: an experiment file", text(""))(
      "set", "with --config: key.path=value, as often as wanted", cxxopts::value<std::vector<std::string>>())(
      "json", "one line of JSON")("h,help", "this text");
  Options result;
  try {
    const auto parsed = options.parse(argc, argv);
    if (parsed.count("help") > 0) {
      fmt::print("{}", options.help());
      return std::nullopt;
    }
    if (!parsed.unmatched().empty()) {
      throw UserError(fmt::format("\"{}\" is one word too many; --help lists the options.", parsed.unmatched().front()));
    }
    const auto get = [&](const char* key) { return parsed[key].as<std::string>(); };
    result.env_id = get("env");
    result.num_envs = integer("num-envs", get("num-envs"), 1, 1 << 24);
    result.device = get("device");
    result.threads = integer("threads", get("threads"), 1, 1024);
    result.isa = isa_named(get("isa"));
    result.repeats = integer("repeats", get("repeats"), 7, 1000);
    result.config = get("config");
    if (parsed.count("set") > 0) result.overrides = parsed["set"].as<std::vector<std::string>>();
    if (!result.overrides.empty() && result.config.empty()) throw UserError("--set needs --config.");
    result.json = parsed.count("json") > 0;
    result.hidden.clear();
    const std::string widths = get("hidden");
    for (std::size_t at = 0; at <= widths.size();) {
      const std::size_t end = std::min(widths.find(',', at), widths.size());
      result.hidden.push_back(integer("hidden", widths.substr(at, end - at), 1, 4096));
      at = end + 1;
    }
    if (result.hidden.size() > 8) throw UserError("--hidden: at most 8 layers are allowed.");
  } catch (const cxxopts::exceptions::exception& error) {
    throw UserError(fmt::format("{}; --help lists the options.", error.what()));
  }
  if (result.device != "cpu" && result.device != "auto") {
    throw UserError(fmt::format("--device: \"{}\" is not in this build; allowed is cpu.", result.device));
  }
  return result;
}

int run_benchmark(int argc, char** argv, const char* name, int (*body)(const Options&)) {
  try {
    const std::optional<Options> options = parse_options(argc, argv, name);
    return options ? body(*options) : 0;
  } catch (const UserError& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return 1;
  }
}

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string compiler() {
#if defined(__clang__)
  return std::string("clang++ ") + __clang_version__;
#else
  return std::string("g++ ") + __VERSION__;
#endif
}

}  // namespace millrace::bench
