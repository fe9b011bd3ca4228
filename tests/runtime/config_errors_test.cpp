// Malformed configurations and overrides: each gives one sentence with the place, the key and what is
// allowed.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/runtime/config_fields.hpp"

namespace millrace {
namespace {

using testing::fields_by_id;

struct Case {
  std::string text;
  std::vector<std::string> overrides;
  std::vector<std::string> told;  // what the sentence must hold
};

void expect_one_sentence(const std::string& sentence) {
  EXPECT_TRUE(sentence.ends_with('.') && !sentence.ends_with("..")) << sentence;
  EXPECT_TRUE(std::ranges::none_of(sentence, [](unsigned char c) { return c < ' ' || c == 0x7F; }))
      << sentence;
  for (std::size_t i = 0; i + 2 < sentence.size(); ++i) {
    const bool second = sentence[i] == '.' && sentence[i + 1] == ' ' && std::isupper(sentence[i + 2]);
    EXPECT_FALSE(second) << sentence;
  }
  EXPECT_LT(sentence.size(), 1200u) << sentence;
}

void expect_refused(const Case& c) {
  try {
    (void)parse_config(c.text, "trial.toml", c.overrides, fields_by_id);
    ADD_FAILURE() << "accepted: " << c.text.substr(0, 200) << (c.overrides.empty() ? "" : c.overrides[0]);
  } catch (const UserError& error) {
    const std::string sentence = error.what();
    expect_one_sentence(sentence);
    EXPECT_TRUE(sentence.starts_with("trial.toml:") || sentence.starts_with("command line: ")) << sentence;
    for (const std::string& part : c.told)
      EXPECT_NE(sentence.find(part), std::string::npos) << "no \"" << part << "\" in: " << sentence;
    if (std::getenv("MILLRACE_SHOW_SENTENCES")) printf("%s\n", sentence.c_str());
  }
}

// A valid start of two lines, so that what follows stands from line 3 on.
std::string after(const std::string& rest) { return "[env]\nid = \"CartPole-v1\"\n" + rest; }

std::string repeated(std::string_view part, std::size_t times, std::string_view before = "",
                     std::string_view behind = "") {
  std::string text(before);
  for (std::size_t i = 0; i < times; ++i) text += part;
  text += behind;
  return text;
}

TEST(ConfigErrors, NotToml) {
  const std::vector<Case> cases = {
      {"a", {}, {"trial.toml:1:", "not TOML"}},
      {"[env", {}, {"trial.toml:1:", "not TOML"}},
      {"[env]]", {}, {"trial.toml:1:", "not TOML"}},
      {"[]", {}, {"trial.toml:1:", "not TOML"}},
      {"[[env]", {}, {"trial.toml:1:", "not TOML"}},
      {"[\n", {}, {"trial.toml:1", "not TOML"}},
      {" [ =]", {}, {"trial.toml:1", "not TOML"}},
      {"\xEF\xBB\xBF[[[a]]]", {}, {"trial.toml:1:", "not TOML"}},
      {"seed = 1\n[ [env] ]", {}, {"trial.toml:2", "not TOML"}},
      {"seed = 1\n\n\nexperiment = '1'\n[[[\n", {}, {"trial.toml:5: ", "not TOML"}},
      {"x = '''\n'''\ny = {s = 1979-05-27TF7:00}\nz = 1", {}, {"trial.toml:3: ", "not TOML"}},
      {"x = 1979-05-27T", {}, {"trial.toml:1:", "not TOML"}},
      {"x = 1979-13-27", {}, {"trial.toml:1:", "not TOML"}},
      {"= 1", {}, {"trial.toml:1:", "not TOML"}},
      {"seed =", {}, {"trial.toml:1:", "not TOML"}},
      {"seed 1", {}, {"trial.toml:1:", "not TOML"}},
      {"seed = 1 2", {}, {"trial.toml:1:", "not TOML"}},
      {"seed = 1\nseed = 2", {}, {"trial.toml:2:", "not TOML", "seed"}},
      {"[env]\nid = 'a'\n[env]\n", {}, {"trial.toml:3:", "not TOML"}},
      {"env.id = 'a'\n[env]\nnum_envs = 2", {}, {"trial.toml:2:", "not TOML"}},
      {"env = {id = 'a'}\n[env]\nnum_envs = 2", {}, {"trial.toml:2:", "not TOML"}},
      {"env = {id = 'a', id = 'b'}", {}, {"trial.toml:1:", "not TOML"}},
      {"experiment = \"a", {}, {"trial.toml:1:", "not TOML"}},
      {"experiment = 'a\n'", {}, {"trial.toml:", "not TOML"}},
      {"experiment = \"\"\"a", {}, {"trial.toml:1:", "not TOML"}},
      {"experiment = \"\\q\"", {}, {"trial.toml:1:", "not TOML"}},
      {"experiment = \"\\uD800\"", {}, {"trial.toml:1:", "not TOML"}},
      {"experiment = \"\\u12\"", {}, {"trial.toml:1:", "not TOML"}},
      {"experiment = abc", {}, {"trial.toml:1:", "not TOML"}},
      {"seed = 01", {}, {"trial.toml:1:", "not TOML"}},
      {"seed = 1__0", {}, {"trial.toml:1:", "not TOML"}},
      {"seed = _1", {}, {"trial.toml:1:", "not TOML"}},
      {"seed = 0x", {}, {"trial.toml:1:", "not TOML"}},
      {"seed = 9223372036854775808", {}, {"trial.toml:1:", "not TOML"}},
      {"seed = 18446744073709551616", {}, {"trial.toml:1:", "not TOML"}},
      {"seed = 99999999999999999999999999", {}, {"trial.toml:1:", "not TOML"}},
      {"seed = 0xFFFFFFFFFFFFFFFF", {}, {"trial.toml:1:", "not TOML"}},
      {"algo.lr = .5", {}, {"trial.toml:1:", "not TOML"}},
      {"algo.lr = 5.", {}, {"trial.toml:1:", "not TOML"}},
      {"algo.lr = 1e400", {}, {"trial.toml:1:", "not TOML"}},
      {"algo.lr = 1e", {}, {"trial.toml:1:", "not TOML"}},
      {"algo.lr = 1.5.5", {}, {"trial.toml:1:", "not TOML"}},
      {"algo.lr = 1,5", {}, {"trial.toml:1:", "not TOML"}},
      {"algo.lr = True", {}, {"trial.toml:1:", "not TOML"}},
      {"algo..lr = 1", {}, {"trial.toml:1:", "not TOML"}},
      {"algo.lr. = 1", {}, {"trial.toml:1:", "not TOML"}},
      {".lr = 1", {}, {"trial.toml:1:", "not TOML"}},
      {"network.hidden = [64, 64", {}, {"trial.toml:1:", "not TOML"}},
      {"network.hidden = [64 64]", {}, {"trial.toml:1:", "not TOML"}},
      {"network.hidden = [,]", {}, {"trial.toml:1:", "not TOML"}},
      {"env = {id = 'a'", {}, {"trial.toml:1:", "not TOML"}},
      {"env = {id = 'a',}", {}, {"trial.toml:1:", "not TOML"}},
      {"experiment: cartpole\n", {}, {"trial.toml:1:", "not TOML"}},
      {"{\"seed\": 1}", {}, {"trial.toml:1:", "not TOML"}},
      {"seed = 1\rexperiment = 'a'", {}, {"trial.toml:1:9", "0x0D"}},
      {std::string("seed\0 = 1", 9), {}, {"trial.toml:1:5", "0x00"}},
      {std::string("seed = 1\n\0", 10), {}, {"trial.toml:2:1", "0x00"}},
      {"# \x1B[31m", {}, {"trial.toml:1:3", "0x1B"}},
      {"# a\x7F", {}, {"trial.toml:1:4", "0x7F"}},
      {"\n\n# \xFF", {}, {"trial.toml:3:3", "0xFF", "UTF-8"}},
      {"# \xC3", {}, {"trial.toml:1:3", "UTF-8"}},
      {"# é\xC0\xAF", {}, {"trial.toml:1:4", "UTF-8"}},
      {"# \xED\xA0\x80", {}, {"trial.toml:1:3", "UTF-8"}},
      {"# \xF4\x90\x80\x80", {}, {"trial.toml:1:3", "UTF-8"}},
      {"\xFF\xFEs\0e\0", {}, {"trial.toml:1:1", "UTF-8"}},
      {std::string("\xFE\xFF\0s", 4), {}, {"trial.toml:1:1", "UTF-8"}},
      {"é = 1", {}, {"trial.toml:1:1", "not TOML"}},
      {"seed = é", {}, {"trial.toml:1:8", "not TOML"}},
      {"seed = 1 é", {}, {"trial.toml:1:10", "not TOML"}},
      {"experiment = \"\"\"a\\é\"\"\"", {}, {"trial.toml:1:", "not TOML"}},
      {"experiment = \"\"\"\\\r\n  é\"\"\"", {}, {"trial.toml:1:1", "experiment is the string \"é\""}},
      {"env =0{i'b=\"\"g|0{id=\"é = 0", {}, {"trial.toml:1:", "not TOML"}},
  };
  for (const Case& c : cases) expect_refused(c);
}

TEST(ConfigErrors, NestingBeyondReason) {
  const std::vector<Case> cases = {
      {repeated("[", 100'000, "a = "), {}, {"trial.toml:1:37", "brackets"}},
      {repeated("{a = ", 100'000, "a = "), {}, {"trial.toml:1:", "brackets"}},
      {repeated(".a", 100'000, "a", " = 1"), {}, {"trial.toml:1:", "dots"}},
      {repeated(".a", 100'000, "[a", "]"), {}, {"trial.toml:1:", "dots"}},
      {repeated(" . \"a\"", 100'000, "[a", "]"), {}, {"trial.toml:1:", "dots"}},
      {repeated(".a", 100'000, "x = {s = '''a''''', a", " = 1}"), {}, {"trial.toml:1:", "dots"}},
      {repeated(".a", 100'000, "x = {s = \"\"\"\\\"\"\"\"\"\", a", " = 1}"), {}, {"trial.toml:1:", "dots"}},
      {repeated(".a", 100'000, "x = 1 # \"\"\"\na", " = 1"), {}, {"trial.toml:2:", "dots"}},
      {repeated("[", 1'000'000), {}, {"trial.toml:1:", "brackets"}},
      {repeated("[", 30), {}, {"trial.toml:1:", "not TOML"}},
      {repeated("a.", 10, "", "a = 1"), {}, {"trial.toml:1:1", "not a known key"}},
      {repeated("x", 100'000, "", " = 1"), {}, {"trial.toml:1:1", "not a known key"}},
  };
  for (const Case& c : cases) expect_refused(c);
}

TEST(ConfigErrors, UnknownKeys) {
  const std::vector<Case> cases = {
      {after("num_env = 10"), {}, {"trial.toml:3:1", "env.num_env ", "nearest known key is env.num_envs"}},
      {after("nmu_envs = 10"), {}, {"env.num_envs"}},
      {after("NUM_ENVS = 10"), {}, {"env.num_envs"}},
      {after("num-envs = 10"), {}, {"env.num_envs"}},
      {after("gamma = 0.9"), {}, {"trial.toml:3:1", "env.gamma", "nearest known key is algo.gamma"}},
      {"sede = 1\n", {}, {"trial.toml:1:1", "sede", "nearest known key is seed"}},
      {"lr = 1e-3\n", {}, {"nearest known key is algo.lr"}},
      {"hidden = [1]\n", {}, {"nearest known key is network.hidden"}},
      {"[alg]\nlr = 1\n", {}, {"trial.toml:1:2", "nearest known key is algo"}},
      {"[evaluation]\nepisodes = 1\n", {}, {"trial.toml:1:2", "evaluation", "[eval]"}},
      {"[algo]\nwibblewobble = 1\n",
       {},
       {"trial.toml:2:1", "algo.wibblewobble", "in [algo] are name, total_steps"}},
      {"zzzzzzzz = 1\n", {}, {"zzzzzzzz", "at the top are experiment, seed, [env]"}},
      {"\"\" = 1\n", {}, {"trial.toml:1:1", "\"\""}},
      {"\"algo.lr\" = 1\n", {}, {"trial.toml:1:1", "\"algo.lr\"", "not a known key"}},
      {"\"a\\nb\" = 1\n", {}, {"trial.toml:1:1", "a\\nb"}},
      {"[algo.lr]\n", {}, {"trial.toml:1:", "algo.lr is a table", "a number above 0"}},
      {"[algo.schedule]\n", {}, {"algo.schedule", "not a known key"}},
      {"[algo]\nlr.start = 1\n", {}, {"trial.toml:2:1", "algo.lr is a table"}},
      {"[seed]\n", {}, {"seed is a table", "an integer from 0"}},
      {"[env.params.x]\nid = 1\n", {}, {"trial.toml: env.id is missing"}},
      {"algo = 3\n", {}, {"trial.toml:1:1", "algo is the integer 3", "a table"}},
      {"env = \"CartPole-v1\"\n", {}, {"env is the string \"CartPole-v1\"", "a table"}},
      {"run = []\n", {}, {"run is an array of 0", "a table"}},
      {"[[env]]\nid = 'a'\n", {}, {"trial.toml:1:", "env is an array of 1", "a table"}},
      {after("params = 3"), {}, {"trial.toml:3:1", "env.params is the integer 3", "a table"}},
      {after("[env.parms]\n"), {}, {"trial.toml:3:", "nearest known key is env.params"}},
  };
  for (const Case& c : cases) expect_refused(c);
}

TEST(ConfigErrors, WrongTypes) {
  const std::vector<Case> cases = {
      {after("num_envs = 3.938"), {}, {"trial.toml:3:1", "env.num_envs is the float 3.938", "1 to 16777216"}},
      {after("num_envs = 3.0"), {}, {"the float 3.0", "write 3, without point"}},
      {after("num_envs = true"), {}, {"the boolean true", "an integer"}},
      {after("num_envs = \"3\""), {}, {"the string \"3\"", "an integer"}},
      {after("num_envs = [3]"), {}, {"an array of 1: the integer 3", "an integer"}},
      {after("num_envs = {}"), {}, {"env.num_envs is a table", "an integer"}},
      {after("num_envs = 1979-05-27"), {}, {"a date or time", "an integer"}},
      {after("num_envs = inf"), {}, {"the float inf", "an integer"}},
      {after("num_envs = nan"), {}, {"the float nan", "an integer"}},
      {after("[algo]\ntotal_steps = 2e6"), {}, {"trial.toml:4:1", "algo.total_steps", "write 2000000"}},
      {after("[algo]\ntotal_steps = 1e300"), {}, {"algo.total_steps is the float 1e+300"}},
      {after("[algo]\nlr = \"1e-3\""), {}, {"algo.lr is the string", "a number above 0"}},
      {after("[algo]\nlr = true"), {}, {"algo.lr is the boolean true"}},
      {after("[algo]\nlr = []"), {}, {"algo.lr is an array of 0"}},
      {after("[algo]\nreward_scale = 9007199254740993"), {}, {"algo.reward_scale", "not exact"}},
      {after("[algo]\nreward_scale = 9223372036854775807"), {}, {"algo.reward_scale", "not exact"}},
      {after("[algo]\noptimizer = 1"),
       {},
       {"algo.optimizer is the integer 1", "\"radam\", \"adam\" or \"sgd\""}},
      {after("[algo]\noptimizer = true"), {}, {"algo.optimizer"}},
      {after("stagger = 1"), {}, {"env.stagger is the integer 1", "true or false"}},
      {after("stagger = 0"), {}, {"env.stagger is the integer 0", "true or false"}},
      {after("stagger = \"yes\""), {}, {"env.stagger is the string \"yes\"", "true or false"}},
      {after("[network]\nhidden = 64"), {}, {"network.hidden is the integer 64", "an array of 1 to 8"}},
      {after("[network]\nhidden = [64.0]"), {}, {"network.hidden", "the float 64.0"}},
      {after("[network]\nhidden = [64, \"64\"]"), {}, {"the integer 64, the string \"64\""}},
      {after("[network]\nhidden = [[64]]"), {}, {"network.hidden"}},
      {after("[network]\nhidden = [true]"), {}, {"network.hidden"}},
      {after("[network]\nhidden = [{a=1}]"), {}, {"network.hidden is an array of 1: a table"}},
      {"experiment = 3\n", {}, {"trial.toml:1:1", "experiment is the integer 3"}},
      {"env.id = 3\n", {}, {"env.id is the integer 3"}},
      {"env.id = [\"CartPole-v1\"]\n", {}, {"env.id is an array of 1"}},
      {after("[run]\nruns_dir = 07:32:00"), {}, {"run.runs_dir is a date or time"}},
      {after("[eval]\nstop_at = \"475\""), {}, {"eval.stop_at is the string"}},
      {"seed = 1.0\n", {}, {"seed is the float 1.0", "write 1,"}},
      {"seed = \"1\"\n", {}, {"seed is the string"}},
  };
  for (const Case& c : cases) expect_refused(c);
}

TEST(ConfigErrors, OutOfRange) {
  const std::vector<std::pair<std::string, std::string>> settings = {
      {"seed", "-1"},
      {"experiment", "''"},
      {"experiment", "'a b'"},
      {"experiment", "'a/b'"},
      {"experiment", "'é'"},
      {"experiment", repeated("a", 101, "'", "'")},
      {"experiment", "\"a\\u0000b\""},
      {"env.id", "''"},
      {"env.num_envs", "0"},
      {"env.num_envs", "-5"},
      {"env.num_envs", "16777217"},
      {"env.num_envs", "9223372036854775807"},
      {"algo.name", "'dqn'"},
      {"algo.name", "'PQN'"},
      {"algo.name", "''"},
      {"algo.total_steps", "0"},
      {"algo.total_steps", "-1"},
      {"algo.total_steps", "4611686018427387905"},
      {"algo.num_steps", "0"},
      {"algo.num_steps", "65537"},
      {"algo.num_epochs", "0"},
      {"algo.num_minibatches", "0"},
      {"algo.gamma", "1.0000001"},
      {"algo.gamma", "-0.1"},
      {"algo.gamma", "nan"},
      {"algo.gamma", "99"},
      {"algo.lambda", "1.5"},
      {"algo.lambda", "-1"},
      {"algo.reward_scale", "0"},
      {"algo.reward_scale", "0.0"},
      {"algo.reward_scale", "-0.0"},
      {"algo.reward_scale", "inf"},
      {"algo.reward_scale", "1e31"},
      {"algo.reward_scale", "-1e-31"},
      {"algo.optimizer", "'rmsprop'"},
      {"algo.lr", "0"},
      {"algo.lr", "-1e-3"},
      {"algo.lr", "nan"},
      {"algo.lr", "+inf"},
      {"algo.lr", "-inf"},
      {"algo.lr", "1e-300"},

      {"algo.lr_end", "-1e-9"},
      {"algo.lr_fraction", "0"},
      {"algo.lr_fraction", "1.1"},
      {"algo.beta1", "1"},
      {"algo.beta2", "1.0"},
      {"algo.beta1", "-0.1"},
      {"algo.adam_eps", "0"},
      {"algo.max_grad_norm", "-1"},
      {"algo.epsilon_start", "1.01"},
      {"algo.epsilon_end", "-0.01"},
      {"algo.epsilon_fraction", "0.0"},
      {"algo.epsilon_mode", "'each'"},
      {"algo.hold_max", "0"},
      {"algo.hold_max", "65536"},
      {"algo.average_decay", "1"},
      {"algo.average_decay", "-0.5"},
      {"algo.compat", "'gymnax'"},
      {"algo.shards", "0"},
      {"algo.shards", "3"},
      {"algo.shards", "128"},
      {"algo.shards", "-8"},
      {"network.hidden", "[]"},
      {"network.hidden", "[0]"},
      {"network.hidden", "[64, -1]"},
      {"network.hidden", "[4097]"},
      {"network.hidden", "[1, 2, 3, 4, 5, 6, 7, 8, 9]"},
      {"network.activation", "'tanh'"},
      {"network.init", "'orthogonal'"},
      {"eval.episodes", "0"},
      {"eval.episodes", "1000001"},
      {"eval.every", "-1"},
      {"eval.stop_at", "nan"},
      {"eval.stop_at", "inf"},
      {"eval.threshold", "-inf"},
      {"run.device", "'gpu'"},
      {"run.device", "''"},
      {"run.device", "'cuda:'"},
      {"run.device", "'cuda:-1'"},
      {"run.device", "'cuda:01'"},
      {"run.device", "'cuda:1000'"},
      {"run.device", "'CPU'"},
      {"run.device", "'cuda:1 '"},
      {"run.threads", "-1"},
      {"run.threads", "1025"},
      {"run.isa", "'sse'"},
      {"run.runs_dir", "''"},
      {"run.runs_dir", "\"a\\nb\""},
      {"run.log_every", "0"},
      {"run.checkpoint_every", "-1"},
      {"run.checkpoint_keep", "0"},
  };
  EXPECT_GE(settings.size(), 90u);
  for (const auto& [key, value] : settings) {
    const std::string column = std::to_string(key.find('.') + 2);  // of the last part; 1 without a dot
    expect_refused(
        {key + " = " + value + "\n", {}, {"trial.toml:1:" + column + ": " + key + " is ", "; allowed: "}});
    if (value.find('\\') == std::string::npos)
      expect_refused(
          {after(""), {key + "=" + value}, {"command line: " + key + "=", ": " + key + " is ", "allowed: "}});
  }
}

TEST(ConfigErrors, Parameters) {
  const std::string mixed = "env.id = \"Mixed-v0\"\n";
  const std::vector<Case> cases = {
      {"", {}, {"trial.toml: env.id is missing"}},
      {"[env]\n", {}, {"env.id is missing"}},
      {"env.id = \"Cartpole\"\n", {}, {"trial.toml:1:", "env.id: there is no environment", "CartPole-v1"}},
      {after(""), {"env.id=Cart"}, {"command line: env.id=Cart", "there is no environment"}},
      {after("params = { force = 1.0 }"),
       {},
       {"trial.toml:3:", "env.params.force", "CartPole-v1", "force_mag"}},
      {after("params.force_mag = -1"),
       {},
       {"trial.toml:3:", "env.params.force_mag is the integer -1", "0 to 10000"}},
      {after("params.force_mag = true"), {}, {"env.params.force_mag"}},
      {after("params.force_mag = \"10\""), {}, {"env.params.force_mag", "a number from"}},
      {after("params.force_mag = nan"), {}, {"env.params.force_mag is the float nan"}},
      {after("params.force_mag = inf"), {}, {"env.params.force_mag is the float inf"}},
      {after("params.force_mag = 1e300"), {}, {"env.params.force_mag"}},
      {after("params.force_mag = 1e-60"), {}, {"env.params.force_mag", "32-bit"}},
      {after("params.force_mag.x = 1"), {}, {"env.params.force_mag is a table"}},
      {after("params.max_episode_steps = 500.0"), {}, {"max_episode_steps is the float 500.0", "write 500,"}},
      {after("params.max_episode_steps = -1"),
       {},
       {"max_episode_steps is the integer -1", "0 to 1000000000"}},
      {after("params.max_episode_steps = true"), {}, {"max_episode_steps is the boolean true"}},
      {after("params.max_episode_steps = 1000000001"), {}, {"max_episode_steps"}},
      {after("params.\"force_mag \" = 1"), {}, {"env.params.\"force_mag \"", "force_mag"}},
      {after("params = { force_mag = 1, force_mag = 2 }"), {}, {"trial.toml:3:", "not TOML"}},
      {mixed + "env.params.slippery = 1\n", {}, {"trial.toml:2:", "env.params.slippery", "true or false"}},
      {mixed + "env.params.slippery = \"true\"\n", {}, {"true or false"}},
      {mixed + "env.params.length = 0.09\n", {}, {"env.params.length is the float 0.09", "from 0.1 to 0.7"}},
      {mixed + "env.params.length = 0.70001\n", {}, {"env.params.length"}},
      {mixed + "env.params.offset = 16777217\n",
       {},
       {"env.params.offset", "a finite number that a 32-bit float"}},
      {mixed + "env.params.offset = -inf\n", {}, {"env.params.offset"}},
      {mixed + "env.params.walls = 9223372036854775807\n", {}, {"env.params.walls", "from 0 to 10"}},
      {mixed, {"env.params.wals=1"}, {"command line: env.params.wals=1", "nearest known one is walls"}},
      {mixed, {"env.params.walls=1.5"}, {"command line: env.params.walls=1.5", "an integer from 0 to 10"}},
      {mixed, {"env.params.walls=many"}, {"command line: env.params.walls=many", "not TOML"}},
      {mixed, {"env.params.=1"}, {"command line: env.params.=1"}},
      {mixed, {"env.params.walls.x=1"}, {"env.params.walls.x"}},
      {mixed, {"env.params.walls={}"}, {"env.params.walls is a table"}},
      {mixed + "env.params.walls = 2\n",
       {"env.id=CartPole-v1"},
       {"trial.toml:2:", "not a parameter of CartPole-v1"}},
  };
  for (const Case& c : cases) expect_refused(c);
}

TEST(ConfigErrors, Overrides) {
  const std::vector<Case> cases = {
      {after(""), {""}, {"command line: ", "key.path=value"}},
      {after(""), {"algo.lr"}, {"command line: algo.lr: this sets nothing"}},
      {after(""), {"="}, {"command line: =", "no key"}},
      {after(""), {"=1"}, {"command line: =1", "no key"}},
      {after(""), {"algo.lr="}, {"command line: algo.lr=", "no value"}},
      {after(""), {"algo.lr=  "}, {"no value"}},
      {after(""), {"run.device="}, {"run.device has no value"}},
      {after(""), {"algo.lrr=1"}, {"command line: algo.lrr=1", "nearest known key is algo.lr"}},
      {after(""), {"lr=1"}, {"nearest known key is algo.lr"}},
      {after(""), {"--algo.lr=1"}, {"command line: --algo.lr=1", "nearest known key is algo.lr"}},
      {after(""), {"ALGO.LR=1"}, {"nearest known key is algo.lr"}},
      {after(""), {"algo .lr=1"}, {"command line: algo .lr=1"}},
      {after(""), {"algo={lr=1}"}, {"algo is a table", "algo.KEY=VALUE"}},
      {after(""), {"env.params={}"}, {"env.params is a table"}},
      {after(""), {"algo=default"}, {"algo is a table"}},
      {after(""), {"nothing=default"}, {"not a known key"}},
      {after(""), {"algo.lr=1", "algo.lr=2"}, {"command line: algo.lr=2", "given twice"}},
      {after(""), {"algo.lr=1", "algo.lr = 1"}, {"given twice"}},
      {after(""), {"algo.lr=fast"}, {"command line: algo.lr=fast", "not TOML", "a number above 0"}},
      {after(""), {"algo.lr=1e400"}, {"algo.lr is not TOML", "a number above 0"}},
      {after(""), {"algo.lr=1 # slow"}, {"algo.lr is not TOML"}},
      {after(""), {"algo.lr=1]#"}, {"algo.lr is not TOML"}},
      {after(""), {"algo.lr=1, 2"}, {"algo.lr is not TOML"}},
      {after(""), {"algo.lr=1,"}, {"algo.lr is not TOML"}},
      {after(""), {"algo.lr=1], [2"}, {"algo.lr is not TOML"}},
      {after(""), {"algo.lr=1\nseed = 2"}, {"command line: algo.lr=1\\nseed", "control characters"}},
      {after(""), {std::string("run.device=c\0pu", 15)}, {"control characters"}},
      {after(""), {"run.device=\xFF"}, {"command line: run.device=\\xFF", "UTF-8"}},
      {after(""), {"\xFF=1"}, {"UTF-8"}},
      {after(""), {"algo.lr=99999999999999999999"}, {"algo.lr is not TOML"}},
      {after(""), {"algo.total_steps=2e6"}, {"command line: algo.total_steps=2e6", "write 2000000"}},
      {after(""), {"algo.total_steps=2M"}, {"algo.total_steps is not TOML", "an integer from 1"}},
      {after(""), {"env.num_envs=2000.0"}, {"write 2000"}},
      {after(""), {"env.stagger=yes"}, {"env.stagger is not TOML", "true or false"}},
      {after(""), {"env.stagger=1"}, {"true or false"}},
      {after(""), {"network.hidden=64"}, {"network.hidden is the integer 64"}},
      {after(""), {"network.hidden=64,64"}, {"network.hidden is not TOML", "an array of 1 to 8"}},
      {after(""), {repeated("[", 100'000, "network.hidden=")}, {"network.hidden is not TOML"}},
      {after(""), {"run.device=[cpu]"}, {"run.device is not TOML"}},
      {after(""), {"run.device=['cpu']"}, {"run.device is an array of 1"}},
      {after(""), {"run.device=\"cpu"}, {"run.device is not TOML"}},
      {after(""), {"run.device='cpu' # x"}, {"run.device is not TOML"}},
      {after(""), {"run.device=tpu"}, {"run.device is the string \"tpu\"", "\"cuda:N\""}},
      {after(""), {"run.isa=avx"}, {"run.isa is the string \"avx\"", "\"avx512\""}},
      {after(""), {"experiment=../x"}, {"experiment is the string \"../x\""}},
      {after(""), {"seed=-1"}, {"seed is the integer -1", "2^63 - 1"}},
      {after(""), {std::string(200'000, 'a')}, {"this sets nothing"}},
      {after(""), {repeated("a", 200'000, "", "=1")}, {"not a known key"}},
      {after(""), {repeated("a", 200'000, "experiment=")}, {"experiment is the string"}},
      {after("[algo]\nhold_exponent = 2.0\nhold_max = 9"),
       {"algo.hold_max=1"},
       {"trial.toml:4:1", "algo.hold_max above 1", "algo.hold_exponent=default"}},
  };
  for (const Case& c : cases) expect_refused(c);
}

TEST(ConfigErrors, SettingsThatExcludeEachOther) {
  const std::vector<Case> cases = {
      {after("[algo]\nmomentum = 0.9"), {}, {"trial.toml:4:1", "algo.momentum", "algo.optimizer = \"sgd\""}},
      {after("[algo]\nmomentum = 0"), {}, {"algo.momentum has no meaning"}},
      {after("[algo]\noptimizer = 'adam'\nmomentum = 0.9"), {}, {"trial.toml:5:1", "algo.momentum"}},
      {after("[algo]\noptimizer = 'sgd'\nbeta1 = 0.9"), {}, {"algo.beta1", "\"radam\" or \"adam\""}},
      {after("[algo]\noptimizer = 'sgd'\nbeta2 = 0.9"), {}, {"algo.beta2"}},
      {after("[algo]\noptimizer = 'sgd'\nadam_eps = 1e-5"), {}, {"algo.adam_eps"}},
      {after("[algo]\nbeta1 = 0.9"), {"algo.optimizer=sgd"}, {"trial.toml:4:1", "algo.beta1=default"}},
      {after("[algo]\nepsilon_alpha = 7.0"), {}, {"algo.epsilon_alpha", "per_instance"}},
      {after("[algo]\nhold_exponent = 2.0"), {}, {"algo.hold_exponent", "algo.hold_max above 1"}},
      {after(""), {"algo.hold_exponent=3"}, {"command line: algo.hold_exponent=3"}},
      {after("[eval]\nevery = 1000\nonly_at_end = true"),
       {},
       {"trial.toml:4:1", "eval.every", "only_at_end = false"}},
      {after("[eval]\nstop_at = 475\nonly_at_end = true"), {}, {"eval.stop_at", "only_at_end = false"}},
      {after("num_envs = 4"), {}, {"trial.toml:3:1", "algo.shards is 8", "only 4 instances"}},
      {after("[algo]\nshards = 64"),
       {"env.num_envs=63"},
       {"command line: env.num_envs=63", "algo.shards is 64"}},
      {after("num_envs = 15"),
       {"algo.num_steps=2", "algo.num_minibatches=3"},
       {"command line: algo.num_minibatches=3", "2 samples", "at most 2 minibatches"}},
      {after("[algo]\nnum_minibatches = 65536"), {}, {"trial.toml:4:1", "algo.num_minibatches is 65536"}},
      {after("[algo]\ntotal_steps = 31999"), {}, {"trial.toml:4:1", "2000 x 16 = 32000", "at least 32000"}},
      {after("num_envs = 16777216\n"),
       {"algo.num_steps=65536"},
       {"algo.total_steps is 2000000", "1099511627776"}},
  };
  for (const Case& c : cases) expect_refused(c);
}

TEST(ConfigErrors, NamesThatAreNoExperiment) {
  for (const char* name : {"my file.toml", "", "é.toml", ".", "a\nb.toml"}) {
    try {
      (void)parse_config("env.id = 'CartPole-v1'", name, {}, fields_by_id);
      EXPECT_STREQ(name, ".");
    } catch (const UserError& error) {
      expect_one_sentence(error.what());
      EXPECT_NE(std::string(error.what()).find("experiment is missing"), std::string::npos) << error.what();
    }
  }
}

TEST(ConfigErrors, Files) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "millrace_config_errors";
  std::filesystem::create_directories(folder);
  const auto refuse = [&](const std::string& path, const char* told) {
    try {
      (void)load_config(path, {}, fields_by_id);
      ADD_FAILURE() << path;
    } catch (const UserError& error) {
      expect_one_sentence(error.what());
      EXPECT_NE(std::string(error.what()).find(told), std::string::npos) << error.what();
    }
  };
  const auto at = [&](const char* name) { return (folder / name).string(); };
  refuse(at("missing.toml"), "no such file");
  refuse(at("missing\nname.toml"), "missing\\nname");
  refuse("", "no such file");
  refuse(folder.string(), "folder");
  refuse("/dev/null", "not a regular file");
  refuse("/dev/zero", "not a regular file");
  refuse(at("a") + std::string(100'000, 'b'), "cannot be read");
  std::ofstream(at("empty.toml")).close();
  refuse(at("empty.toml"), "env.id is missing");
  refuse(at("empty.toml") + "/inner.toml", "");
  std::ofstream(at("large.toml")).close();
  std::filesystem::resize_file(at("large.toml"), 100 << 20);
  refuse(at("large.toml"), "at most 1048576 bytes");
  ASSERT_EQ(mkfifo(at("pipe.toml").c_str(), 0600), 0);
  refuse(at("pipe.toml"), "not a regular file");
  std::ofstream(at("secret.toml")) << "seed = 1\n";
  std::filesystem::permissions(at("secret.toml"), std::filesystem::perms::none);
  if (!std::ifstream(at("secret.toml")))
    refuse(at("secret.toml"), "cannot be read");  // root reads everything
  std::filesystem::create_symlink("loop.toml", at("loop.toml"));
  refuse(at("loop.toml"), "cannot be read");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace millrace
