// The resolved text reads back to the same configuration; the reference page is the one the schema gives.
#include "runtime/config_text.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "runtime/config_document.hpp"
#include "runtime/config_schema.hpp"
#include "tests/runtime/config_fields.hpp"

namespace millrace {
namespace {

using namespace configuration;
using testing::fields_by_id;

class RandomConfigs {
 public:
  explicit RandomConfigs(unsigned seed) : generator_(seed) {}

  ExperimentConfig next() {
    ExperimentConfig config;
    for (const Key& key : schema()) key.set(config, value(key));
    config.env.num_envs = std::max(config.env.num_envs, config.algo.shards);
    config.algo.num_minibatches =
        std::min(config.algo.num_minibatches, config.env.num_envs / config.algo.shards);
    config.algo.total_steps =
        std::max(config.algo.total_steps, std::int64_t{config.env.num_envs} * config.algo.num_steps);
    const ExperimentConfig defaults;
    for (const Key& key : schema())
      if (key.only_with && !key.only_with->holds(config)) key.set(config, key.get(defaults));
    config.env.id = "Mixed-v0";
    const float length = std::uniform_real_distribution<float>(0.1f, 0.7f)(generator_);
    config.env.params = {{"length", ParameterType::kFloat, length},
                         {"walls", ParameterType::kInt, static_cast<double>(between(0, 10))},
                         {"slippery", ParameterType::kBool, static_cast<double>(between(0, 1))},
                         {"offset", ParameterType::kFloat, static_cast<float>(float_within({}))}};
    return config;
  }

 private:
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(generator_);
  }

  // Over all magnitudes, and now and then the borders themselves.
  std::int64_t integer_within(const Bounds& bounds) {
    if (bounds.power_of_two) return std::int64_t{1} << between(0, 6);
    const std::int64_t border = between(0, 9);
    if (border < 2) return border == 0 ? bounds.low : bounds.high;
    return std::max(bounds.low, between(bounds.low, bounds.high) >> between(0, 62));
  }

  double float_within(const Interval& interval) {
    for (;;) {
      const double magnitude = std::pow(10.0, std::uniform_real_distribution<double>(-30, 30)(generator_));
      double value = between(0, 1) ? magnitude : -magnitude;
      if (between(0, 2) == 0) value = std::uniform_real_distribution<double>(-2, 2)(generator_);
      if (between(0, 9) == 0) value = static_cast<double>(between(-1, 1));
      const bool zero = interval.zero || value != 0.0;
      const bool low = interval.low_open ? value > interval.low : value >= interval.low;
      const bool high = interval.high_open ? value < interval.high : value <= interval.high;
      if (zero && low && high) return value;
    }
  }

  KeyValue value(const Key& key) {
    switch (key.type) {
      case KeyType::kInteger:
        return integer_within(key.bounds);
      case KeyType::kBoolean:
        return between(0, 1) == 1;
      case KeyType::kChoice:
        return between(0, static_cast<std::int64_t>(key.choices.size()) - 1);
      case KeyType::kFloat:
        return key.optional && between(0, 1) ? KeyValue() : KeyValue(float_within(key.interval));
      case KeyType::kIntegerList: {
        std::vector<std::int64_t> list(static_cast<std::size_t>(between(1, 8)));
        for (std::int64_t& element : list) element = integer_within(key.bounds);
        return list;
      }
      case KeyType::kText:
        break;
    }
    const std::string_view name = key.name;
    if (name == "run.device") return std::string(between(0, 1) ? "cuda:7" : "auto");
    if (name == "run.runs_dir") return std::string(between(0, 1) ? "a \"b\" \\ c#=é'" : "runs");
    return "x" + std::to_string(between(0, 999));
  }

  std::mt19937_64 generator_;
};

TEST(ConfigText, ResolvedTextReadsBackEqual) {
  RandomConfigs configs(1);
  for (int i = 0; i < 2000; ++i) {
    const ExperimentConfig config = configs.next();
    ASSERT_NO_THROW(validate_config(config));
    const std::string text = to_toml(config);
    ExperimentConfig back;
    ASSERT_NO_THROW(back = parse_config(text, "config.toml", {}, fields_by_id)) << text;
    ASSERT_EQ(back, config) << text;
    ASSERT_EQ(to_toml(back), text);
  }
}

TEST(ConfigText, EveryKeyIsNamedOnce) {
  ExperimentConfig config;
  config.env.id = "Mixed-v0";
  const std::string text = to_toml(config);
  for (const Key& key : schema()) {
    const std::string leaf(leaf_of(key.name));
    const bool set = text.find('\n' + leaf + " = ") != std::string::npos || text.starts_with(leaf + " = ");
    const bool told = text.find("\n# " + leaf + ": ") != std::string::npos;
    EXPECT_NE(set, told) << key.name;
  }
}

TEST(ConfigText, FloatsAreShortest) {
  EXPECT_EQ(float_text(0.1), "0.1");
  EXPECT_EQ(float_text(9.8f), "9.8");
  EXPECT_EQ(float_text(1.0), "1.0");
  EXPECT_EQ(float_text(-0.0), "-0.0");
  EXPECT_EQ(float_text(1e-8), "1e-08");
  EXPECT_EQ(float_text(1e30), "1e+30");
}

TEST(ConfigText, QuotedStaysOnOneLineAndReadsBack) {
  EXPECT_EQ(quoted("a\"b\\c\n\t\x01\x7F"), R"("a\"b\\c\n\t\u0001\u007F")");
  EXPECT_EQ(quoted("\xFF\xC3"), R"("\xFF\xC3")");
  EXPECT_EQ(quoted("é€😀"), "\"é€😀\"");
  const std::string all = "x = " + quoted("a\"b\\c\n\t\x01\x7Fé");
  EXPECT_EQ(parse_document(all, "").at(0).value.string, "a\"b\\c\n\t\x01\x7Fé");
}

TEST(ConfigText, ReferencePageIsTheSchemas) {
  const std::string path = MILLRACE_SOURCE_DIR "/docs/configuration.md";
  if (std::getenv("MILLRACE_UPDATE_DOCS")) std::ofstream(path) << configuration_markdown();
  std::ostringstream page;
  page << std::ifstream(path).rdbuf();
  EXPECT_EQ(page.str(), configuration_markdown()) << "set MILLRACE_UPDATE_DOCS=1 to write it anew";
}

TEST(ConfigText, ReferencePageHasEveryKeyOnce) {
  const std::string page = configuration_markdown();
  for (const Key& key : schema()) {
    std::size_t rows = 0;
    const std::string row = "\n| `" + std::string(leaf_of(key.name)) + "` |";
    for (std::size_t at = page.find(row); at != std::string::npos; at = page.find(row, at + 1)) ++rows;
    EXPECT_EQ(rows, 1u) << key.name;
  }
}

}  // namespace
}  // namespace millrace
