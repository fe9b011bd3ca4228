// What is read from valid configurations: defaults, values, overrides, files.
#include "runtime/config.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "runtime/config_nearest.hpp"
#include "runtime/config_schema.hpp"
#include "tests/runtime/config_fields.hpp"

namespace millrace {
namespace {

using testing::fields_by_id;

ExperimentConfig read(std::string_view text, std::vector<std::string> overrides = {}) {
  return parse_config(text, "folder/trial.toml", overrides, fields_by_id);
}

const std::string kCartPole = "[env]\nid = \"CartPole-v1\"\n";

double parameter(const ExperimentConfig& config, std::string_view name) {
  for (const EnvParameter& parameter : config.env.params)
    if (parameter.name == name) return parameter.value;
  ADD_FAILURE() << "no parameter " << name;
  return std::numeric_limits<double>::quiet_NaN();
}

TEST(Config, DefaultsAreTheStructs) {
  ExperimentConfig expected;
  expected.experiment = "trial";
  expected.env.id = "CartPole-v1";
  for (const ParameterField& field : fields_by_id("CartPole-v1"))
    expected.env.params.push_back({field.name, field.type, field.default_value});
  EXPECT_EQ(read(kCartPole), expected);
  EXPECT_EQ(expected.env.num_envs, 2000);
  EXPECT_EQ(expected.algo.num_minibatches, 8);
}

TEST(Config, ReadsEveryKindOfValue) {
  const ExperimentConfig config = read(R"(
experiment = "a.b_c-1"
seed = 9223372036854775807
env = { id = "Mixed-v0", num_envs = 2_047, params = { length = 0.2, walls = 10, slippery = false } }
algo.optimizer = "sgd"
algo.momentum = 0.5
algo.lr = 1
algo.total_steps = 4611686018427387904
algo.shards = 64
[network]
hidden = [1, 4096, 3]
layer_norm = false
init = "he_normal"
[eval]
stop_at = -110
threshold = 475.5
[run]
device = "cuda:12"
isa = "avx2"
)");
  EXPECT_EQ(config.experiment, "a.b_c-1");
  EXPECT_EQ(config.seed, (std::uint64_t{1} << 63) - 1);
  EXPECT_EQ(config.env.num_envs, 2047);
  EXPECT_EQ(parameter(config, "length"), static_cast<double>(0.2f));
  EXPECT_EQ(parameter(config, "walls"), 10.0);
  EXPECT_EQ(parameter(config, "slippery"), 0.0);
  EXPECT_EQ(parameter(config, "offset"), 0.0);
  EXPECT_EQ(config.algo.optimizer, AlgoConfig::Optimizer::kSgd);
  EXPECT_EQ(config.algo.momentum, 0.5);
  EXPECT_EQ(config.algo.lr, 1.0);
  EXPECT_EQ(config.algo.total_steps, std::int64_t{1} << 62);
  EXPECT_EQ(config.algo.shards, 64);
  EXPECT_EQ(config.network.hidden, (std::vector<int>{1, 4096, 3}));
  EXPECT_FALSE(config.network.layer_norm);
  EXPECT_EQ(config.network.init, NetworkConfig::Init::kHeNormal);
  EXPECT_EQ(config.eval.stop_at, -110.0);
  EXPECT_EQ(config.eval.threshold, 475.5);
  EXPECT_EQ(config.run.device, "cuda:12");
  EXPECT_EQ(config.run.isa, RunConfig::Isa::kAvx2);
}

TEST(Config, OverridesWinOverTheFile) {
  const std::string text = kCartPole + "[algo]\nlr = 0.5\n[run]\ndevice = \"cuda\"\n";
  const ExperimentConfig config =
      read(text, {"algo.lr=0.25", "run.device=cuda:1", "env.params.force_mag=12", "experiment = 2024",
                  "network.hidden=[32,32]", "run.isa='avx512'", "run.runs_dir=/data/my runs", "seed=0x10",
                  "algo.total_steps=64_000", "run.pin=false"});
  EXPECT_EQ(config.algo.lr, 0.25);
  EXPECT_EQ(config.run.device, "cuda:1");
  EXPECT_EQ(parameter(config, "force_mag"), 12.0);
  EXPECT_EQ(config.experiment, "2024");
  EXPECT_EQ(config.network.hidden, (std::vector<int>{32, 32}));
  EXPECT_EQ(config.run.isa, RunConfig::Isa::kAvx512);
  EXPECT_EQ(config.run.runs_dir, "/data/my runs");
  EXPECT_EQ(config.seed, 16u);
  EXPECT_EQ(config.algo.total_steps, 64000);
  EXPECT_FALSE(config.run.pin);
}

TEST(Config, OverridesAloneAreEnough) {
  const ExperimentConfig config = read("", {"env.id=Acrobot-v1"});
  EXPECT_EQ(config.env.id, "Acrobot-v1");
  EXPECT_EQ(config.experiment, "trial");
}

TEST(Config, DefaultTakesASettingBack) {
  const std::string text = kCartPole +
                           "[env.params]\nforce_mag = 12\n[algo]\nhold_max = 50\nhold_exponent = 1.5\n" +
                           "[eval]\nstop_at = 475\n";
  const ExperimentConfig config = read(text, {"algo.hold_max=1", "algo.hold_exponent=default",
                                              "eval.stop_at=default", "env.params.force_mag=default"});
  EXPECT_EQ(config, read(kCartPole));
  const ExperimentConfig other = read(text, {"env.id=Acrobot-v1", "env.params=default"});
  EXPECT_EQ(other.env.params.size(), fields_by_id("Acrobot-v1").size());
  EXPECT_EQ(read(kCartPole, {"experiment='default'"}).experiment, "default");
}

TEST(Config, ByteOrderMarkAndWindowsLineEndsAreRead) {
  EXPECT_EQ(read("\xEF\xBB\xBF[env]\r\nid = \"CartPole-v1\"\r\n"), read(kCartPole));
}

TEST(Config, FloatParametersAreThirtyTwoBit) {
  const std::string mixed = "env.id = \"Mixed-v0\"\n";
  EXPECT_EQ(parameter(read(mixed), "length"), static_cast<double>(0.1f));
  // The bound 0.7 as people write it, though the float next to it is above or below.
  EXPECT_EQ(parameter(read(mixed, {"env.params.length=0.7"}), "length"), static_cast<double>(0.7f));
  EXPECT_EQ(parameter(read(mixed, {"env.params.length=0.1"}), "length"), static_cast<double>(0.1f));
  EXPECT_EQ(parameter(read(mixed, {"env.params.offset=16777216"}), "offset"), 16777216.0);
  EXPECT_EQ(parameter(read(mixed, {"env.params.offset=-3e38"}), "offset"), static_cast<double>(-3e38f));
}

TEST(Config, IntervalsHaveTheirDefaults) {
  ExperimentConfig config;
  EXPECT_EQ(evaluation_interval(config), 100'000);
  EXPECT_EQ(checkpoint_interval(config), 200'000);
  config.algo.total_steps = 3;
  EXPECT_EQ(evaluation_interval(config), 1);
  EXPECT_EQ(checkpoint_interval(config), 1);
  config.eval.every = 7;
  config.run.checkpoint_every = 9;
  EXPECT_EQ(evaluation_interval(config), 7);
  EXPECT_EQ(checkpoint_interval(config), 9);
  config.eval.only_at_end = true;
  EXPECT_EQ(evaluation_interval(config), std::nullopt);
}

TEST(Config, EveryKeyTakesItsOwnDefaultAndRefusesOtherTypes) {
  using namespace configuration;
  const ExperimentConfig defaults;
  for (const Key& key : schema()) {
    const bool from_elsewhere = key.required || std::string_view(key.name) == "experiment";
    EXPECT_NE(accepts(key, key.get(defaults)), from_elsewhere) << key.name;
    EXPECT_EQ(find_key(key.name), &key);
    EXPECT_FALSE(accepts(key, std::vector<std::int64_t>{})) << key.name;
    EXPECT_EQ(accepts(key, KeyValue()), key.optional) << key.name;
    EXPECT_FALSE(accepts(key, std::numeric_limits<double>::quiet_NaN())) << key.name;
    EXPECT_FALSE(accepts(key, std::numeric_limits<double>::infinity())) << key.name;
    EXPECT_FALSE(accepts(key, std::int64_t{-1})) << key.name;
  }
}

TEST(Config, CrossChecksAllowTheirBorders) {
  const std::string text = "env.id = \"CartPole-v1\"\n";
  const ExperimentConfig config = read(text, {"env.num_envs=17", "algo.num_steps=3", "algo.shards=8",
                                              "algo.num_minibatches=6", "algo.total_steps=51"});
  EXPECT_EQ(config.algo.num_minibatches, 6);
  EXPECT_NO_THROW(
      read(text, {"env.num_envs=1", "algo.shards=1", "algo.num_steps=1", "algo.num_minibatches=1"}));
}

TEST(Config, ValidateChecksWhatCodePutTogether) {
  ExperimentConfig config = read(kCartPole);
  EXPECT_NO_THROW(validate_config(config));
  const auto refuses = [&](auto change, const char* key) {
    ExperimentConfig changed = config;
    change(changed);
    try {
      validate_config(changed);
      ADD_FAILURE() << key;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
    }
  };
  refuses([](auto& c) { c.algo.gamma = 1.5; }, "algo.gamma");
  refuses([](auto& c) { c.algo.momentum = 0.5; }, "algo.momentum");
  refuses([](auto& c) { c.env.num_envs = 0; }, "env.num_envs");
  refuses([](auto& c) { c.seed = std::uint64_t{1} << 63; }, "seed");
  refuses([](auto& c) { c.network.hidden.clear(); }, "network.hidden");
  refuses([](auto& c) { c.algo.total_steps = 10; }, "algo.total_steps");
  refuses([](auto& c) { c.algo.optimizer = static_cast<AlgoConfig::Optimizer>(9); }, "algo.optimizer");
  refuses([](auto& c) { c.eval.stop_at = std::numeric_limits<double>::infinity(); }, "eval.stop_at");
}

TEST(Config, ShippedFilesAreValid) {
  std::size_t files = 0;
  const std::filesystem::path folder = std::filesystem::path(MILLRACE_SOURCE_DIR) / "configs";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".toml") continue;
    ++files;
    EXPECT_NO_THROW({
      const ExperimentConfig config = load_config(entry.path().string(), {}, fields_by_id);
      validate_config(config);
    }) << entry.path();
  }
  EXPECT_GE(files, 6u);
}

TEST(Config, ALargeFileIsReadUpToTheLimit) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "large.toml";
  std::string text = kCartPole + "# ";
  text.resize(kMaxConfigBytes, 'x');
  std::ofstream(path) << text;
  EXPECT_EQ(load_config(path.string(), {}, fields_by_id).experiment, "large");
  std::ofstream(path, std::ios::app) << 'x';
  EXPECT_THROW((void)load_config(path.string(), {}, fields_by_id), UserError);
  std::filesystem::remove(path);
}

TEST(Config, EditDistance) {
  using configuration::edit_distance;
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("lr", "LR"), 0u);
  EXPECT_EQ(edit_distance("num-envs", "num_envs"), 0u);
  EXPECT_EQ(edit_distance("gmama", "gamma"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance(std::string(1000, 'a'), std::string(1000, 'a')), 0u);
}

}  // namespace
}  // namespace millrace
