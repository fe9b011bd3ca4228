// The declarations: one for each key. The defaults are the member initialisers in config.hpp.
#include "runtime/config_schema.hpp"

#include <algorithm>
#include <type_traits>

namespace millrace::configuration {
namespace {

using Top = ExperimentConfig;

template <auto... Path>
KeyValue get_member(const ExperimentConfig& config) {
  const auto& member = (config.*....*Path);
  using Member = std::remove_cvref_t<decltype(member)>;
  if constexpr (std::is_same_v<Member, std::optional<double>>) {
    return member ? KeyValue(*member) : KeyValue();
  } else if constexpr (std::is_same_v<Member, std::vector<int>>) {
    return std::vector<std::int64_t>(member.begin(), member.end());
  } else if constexpr (std::is_same_v<Member, bool> || std::is_same_v<Member, double> ||
                       std::is_same_v<Member, std::string>) {
    return member;
  } else {
    return static_cast<std::int64_t>(member);
  }
}

template <auto... Path>
void set_member(ExperimentConfig& config, const KeyValue& value) {
  auto& member = (config.*....*Path);
  using Member = std::remove_cvref_t<decltype(member)>;
  if constexpr (std::is_same_v<Member, std::optional<double>>) {
    member = std::holds_alternative<double>(value) ? std::optional(std::get<double>(value)) : std::nullopt;
  } else if constexpr (std::is_same_v<Member, std::vector<int>>) {
    member.clear();
    for (const std::int64_t element : std::get<std::vector<std::int64_t>>(value))
      member.push_back(static_cast<int>(element));
  } else if constexpr (std::is_same_v<Member, bool> || std::is_same_v<Member, double> ||
                       std::is_same_v<Member, std::string>) {
    member = std::get<Member>(value);
  } else {
    member = static_cast<Member>(std::get<std::int64_t>(value));
  }
}

template <auto... Path>
Key declare(const char* name, KeyType type, const char* doc) {
  return {.name = name, .type = type, .doc = doc, .get = get_member<Path...>, .set = set_member<Path...>};
}

template <auto... Path>
Key integer(const char* name, Bounds bounds, const char* doc) {
  Key key = declare<Path...>(name, KeyType::kInteger, doc);
  key.bounds = bounds;
  return key;
}

template <auto... Path>
Key number(const char* name, Interval interval, const char* doc) {
  Key key = declare<Path...>(name, KeyType::kFloat, doc);
  key.interval = interval;
  return key;
}

template <auto... Path>
Key text(const char* name, TextRule rule, const char* doc) {
  Key key = declare<Path...>(name, KeyType::kText, doc);
  key.text = rule;
  return key;
}

template <auto... Path>
Key choice(const char* name, std::vector<const char*> choices, const char* doc) {
  Key key = declare<Path...>(name, KeyType::kChoice, doc);
  key.choices = std::move(choices);
  return key;
}

template <auto... Path>
Key boolean(const char* name, const char* doc) {
  return declare<Path...>(name, KeyType::kBoolean, doc);
}

Key only_with(const Condition& condition, Key key) {
  key.only_with = &condition;
  return key;
}

Key with_default_text(const char* default_text, Key key) {
  key.default_text = default_text;
  return key;
}

Key optional(const char* default_text, Key key) {
  key.optional = true;
  key.default_text = default_text;
  return key;
}

Key required(Key key) {
  key.required = true;
  return key;
}

constexpr Interval above(double low) { return {.low = low, .low_open = true}; }
constexpr Interval at_least(double low) { return {.low = low}; }
constexpr Interval unit() { return {.low = 0.0, .high = 1.0}; }
constexpr Interval unit_without_zero() { return {.low = 0.0, .high = 1.0, .low_open = true}; }
constexpr Interval unit_without_one() { return {.low = 0.0, .high = 1.0, .high_open = true}; }
constexpr Interval anything() { return {}; }
constexpr Interval nonzero() { return {.zero = false}; }

using Algo = AlgoConfig;
constexpr Condition kSgd = {"algo.optimizer = \"sgd\"",
                            [](const Top& c) { return c.algo.optimizer == Algo::Optimizer::kSgd; }};
constexpr Condition kAdaptive = {"algo.optimizer = \"radam\" or \"adam\"",
                                 [](const Top& c) { return c.algo.optimizer != Algo::Optimizer::kSgd; }};
constexpr Condition kPerInstance = {"algo.epsilon_mode = \"per_instance\"", [](const Top& c) {
                                      return c.algo.epsilon_mode == Algo::EpsilonMode::kPerInstance;
                                    }};
constexpr Condition kHolding = {"algo.hold_max above 1", [](const Top& c) { return c.algo.hold_max > 1; }};
constexpr Condition kPeriodic = {"eval.only_at_end = false",
                                 [](const Top& c) { return !c.eval.only_at_end; }};

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-';
}

constexpr TextRule kWord = {"1 to 100 of the characters A-Z a-z 0-9 . _ -", [](std::string_view s) {
                              return !s.empty() && s.size() <= 100 &&
                                     std::ranges::all_of(s, is_word_character);
                            }};
constexpr TextRule kFolder = {"a path of 1 to 4000 bytes without control characters", [](std::string_view s) {
                                return !s.empty() && s.size() <= 4000 && std::ranges::none_of(s, [](char c) {
                                  return (c >= 0 && c < ' ') || c == '\x7f';
                                });
                              }};
constexpr TextRule kDevice = {
    "\"auto\", \"cpu\", \"cuda\" or \"cuda:N\" with N from 0 to 999", [](std::string_view s) {
      if (s == "auto" || s == "cpu" || s == "cuda") return true;
      if (!s.starts_with("cuda:")) return false;
      s.remove_prefix(5);
      const bool digits = std::ranges::all_of(s, [](char c) { return c >= '0' && c <= '9'; });
      return digits && !s.empty() && s.size() <= 3 && (s.size() == 1 || s[0] != '0');
    }};

constexpr std::int64_t kMaxSteps = std::int64_t{1} << 62;

std::vector<Key> top_keys() {
  return {
      with_default_text("the file's name without folder and ending",
                        text<&Top::experiment>("experiment", kWord, "Names the run, also in its folder.")),
      integer<&Top::seed>("seed", {.low = 0}, "Key of every random stream of the run."),
  };
}

std::vector<Key> env_keys() {
  constexpr auto kEnv = &Top::env;
  using Env = EnvConfig;
  return {
      required(text<kEnv, &Env::id>("env.id", kWord, "Which environment; `rl_run envs` lists them.")),
      integer<kEnv, &Env::num_envs>("env.num_envs", {1, 16'777'216},
                                    "Instances that are stepped together (N)."),
      boolean<kEnv, &Env::stagger>(
          "env.stagger",
          "Whether first episodes start at staggered elapsed steps, so that time limits do "
          "not all fall on one step."),
  };
}

std::vector<Key> optimizer_keys() {
  constexpr auto kAlgo = &Top::algo;
  return {
      choice<kAlgo, &Algo::optimizer>("algo.optimizer", {"radam", "adam", "sgd"},
                                      "How gradients become updates."),
      number<kAlgo, &Algo::lr>("algo.lr", above(0), "Learning rate at the start."),
      number<kAlgo, &Algo::lr_end>("algo.lr_end", at_least(0), "Learning rate that `lr` moves to linearly."),
      number<kAlgo, &Algo::lr_fraction>("algo.lr_fraction", unit_without_zero(),
                                        "Fraction of the updates after which `lr_end` is reached."),
      only_with(kAdaptive, number<kAlgo, &Algo::beta1>("algo.beta1", unit_without_one(),
                                                       "Decay of the mean of the gradients.")),
      only_with(kAdaptive, number<kAlgo, &Algo::beta2>("algo.beta2", unit_without_one(),
                                                       "Decay of the mean of their squares.")),
      only_with(kAdaptive, number<kAlgo, &Algo::adam_eps>("algo.adam_eps", above(0),
                                                          "Added to the root of the mean square.")),
      only_with(kSgd, number<kAlgo, &Algo::momentum>("algo.momentum", unit_without_one(),
                                                     "Part of the last update that is kept.")),
      number<kAlgo, &Algo::max_grad_norm>("algo.max_grad_norm", at_least(0),
                                          "Longer gradients (global norm) are shortened to this; 0: never."),
  };
}

std::vector<Key> exploration_keys() {
  constexpr auto kAlgo = &Top::algo;
  return {
      number<kAlgo, &Algo::epsilon_start>("algo.epsilon_start", unit(),
                                          "Probability of an exploring action at first."),
      number<kAlgo, &Algo::epsilon_end>("algo.epsilon_end", unit(), "Probability that it moves to linearly."),
      number<kAlgo, &Algo::epsilon_fraction>("algo.epsilon_fraction", unit_without_zero(),
                                             "Fraction of the updates after which `epsilon_end` is reached."),
      choice<kAlgo, &Algo::epsilon_mode>("algo.epsilon_mode", {"shared", "per_instance"},
                                         "One epsilon for all instances, or one each: "
                                         "epsilon^(1 + epsilon_alpha * i / (N - 1)) for instance i."),
      only_with(kPerInstance, number<kAlgo, &Algo::epsilon_alpha>("algo.epsilon_alpha", at_least(0),
                                                                  "How far the instances' epsilons spread.")),
      integer<kAlgo, &Algo::hold_max>(
          "algo.hold_max", {1, 65535},
          "An exploring action is held for k steps, 1 <= k <= `hold_max`, never across a "
          "reset; 1: plain epsilon-greedy."),
      only_with(kHolding, number<kAlgo, &Algo::hold_exponent>("algo.hold_exponent", at_least(0),
                                                              "k is drawn with weight k^-hold_exponent.")),
  };
}

std::vector<Key> learning_keys() {
  constexpr auto kAlgo = &Top::algo;
  return {
      choice<kAlgo, &Algo::name>("algo.name", {"pqn"}, "The algorithm: PQN (arXiv 2407.04811)."),
      integer<kAlgo, &Algo::total_steps>("algo.total_steps", {1, kMaxSteps},
                                         "Environment steps of the run, all instances together."),
      integer<kAlgo, &Algo::num_steps>("algo.num_steps", {1, 65536},
                                       "Steps of each instance between two updates (T)."),
      integer<kAlgo, &Algo::num_epochs>("algo.num_epochs", {1, 1000}, "Passes over each rollout."),
      integer<kAlgo, &Algo::num_minibatches>(
          "algo.num_minibatches", {1, 65536},
          "Minibatches a pass; their sizes differ by at most one a shard."),
      number<kAlgo, &Algo::gamma>("algo.gamma", unit(), "Discount."),
      number<kAlgo, &Algo::lambda>("algo.lambda", unit(), "Mixing of the lambda-returns."),
      number<kAlgo, &Algo::reward_scale>("algo.reward_scale", nonzero(),
                                         "Factor on rewards for learning; reported returns are without it."),
  };
}

std::vector<Key> other_algo_keys() {
  constexpr auto kAlgo = &Top::algo;
  return {
      number<kAlgo, &Algo::average_decay>(
          "algo.average_decay", unit_without_one(),
          "Evaluation uses an exponential moving average of the parameters, with this "
          "decay an update; 0: the parameters themselves."),
      choice<kAlgo, &Algo::compat>("algo.compat", {"none", "purejaxql"},
                                   "`purejaxql` repeats that code's two deviations: a truncation counts as a "
                                   "termination, and one index is late at the rollout's end."),
      integer<kAlgo, &Algo::shards>(
          "algo.shards", {1, 64, true},
          "Logical shards that minibatches are drawn in; the result depends on it, and not "
          "on threads or ranks."),
  };
}

std::vector<Key> network_keys() {
  constexpr auto kNetwork = &Top::network;
  using Network = NetworkConfig;
  Key hidden = declare<kNetwork, &Network::hidden>("network.hidden", KeyType::kIntegerList,
                                                   "Widths of the hidden layers, input side first.");
  hidden.bounds = {1, 4096};
  hidden.max_length = 8;
  return {
      hidden,
      boolean<kNetwork, &Network::layer_norm>("network.layer_norm", "LayerNorm after each hidden layer."),
      choice<kNetwork, &Network::activation>("network.activation", {"relu"}, "What follows it."),
      choice<kNetwork, &Network::init>("network.init", {"lecun_normal", "he_normal"},
                                       "Distribution of the first weights; biases start at 0."),
  };
}

std::vector<Key> eval_keys() {
  constexpr auto kEval = &Top::eval;
  using Eval = EvalConfig;
  return {
      integer<kEval, &Eval::episodes>("eval.episodes", {1, 1'000'000}, "Episodes of a greedy evaluation."),
      only_with(kPeriodic,
                integer<kEval, &Eval::every>("eval.every", {0, kMaxSteps},
                                             "Environment steps between two evaluations; 0: a twentieth of "
                                             "`algo.total_steps`.")),
      boolean<kEval, &Eval::only_at_end>("eval.only_at_end", "Evaluate once, when training is over."),
      only_with(kPeriodic, optional("not set", number<kEval, &Eval::stop_at>(
                                                   "eval.stop_at", anything(),
                                                   "Training ends when two evaluations in a row have "
                                                   "reached this mean return."))),
      optional("the environment's own",
               number<kEval, &Eval::threshold>("eval.threshold", anything(),
                                               "Mean return from which the task counts as solved.")),
  };
}

std::vector<Key> run_keys() {
  constexpr auto kRun = &Top::run;
  using Run = RunConfig;
  return {
      text<kRun, &Run::device>("run.device", kDevice, "Where it runs; `auto` takes a GPU if there is one."),
      integer<kRun, &Run::threads>("run.threads", {0, 1024},
                                   "CPU workers; 0: as many as the process may use."),
      choice<kRun, &Run::isa>("run.isa", {"auto", "baseline", "avx2", "avx512"},
                              "Instruction set of the CPU code; `auto` takes the best the machine has."),
      boolean<kRun, &Run::pin>("run.pin", "Whether each CPU worker stays on one core."),
      text<kRun, &Run::runs_dir>("run.runs_dir", kFolder, "Folder that run folders are made in."),
      integer<kRun, &Run::log_every>("run.log_every", {1, kMaxSteps},
                                     "Iterations between two rows of metrics."),
      integer<kRun, &Run::checkpoint_every>("run.checkpoint_every", {0, kMaxSteps},
                                            "Environment steps between two checkpoints; 0: a tenth of "
                                            "`algo.total_steps`. The end and an interruption write one too."),
      integer<kRun, &Run::checkpoint_keep>("run.checkpoint_keep", {1, 1'000'000},
                                           "How many of the last checkpoints are kept, beside the best."),
  };
}

}  // namespace

const std::vector<Key>& schema() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> all;
    for (auto part : {top_keys, env_keys, learning_keys, optimizer_keys, exploration_keys, other_algo_keys,
                      network_keys, eval_keys, run_keys}) {
      for (Key& key : part()) all.push_back(std::move(key));
    }
    return all;
  }();
  return keys;
}

const std::vector<Section>& sections() {
  static const std::vector<Section> all = {{"", "The experiment"},
                                           {"env", "The environment and its instances"},
                                           {"algo", "The learning algorithm"},
                                           {"network", "The Q-network"},
                                           {"eval", "Greedy evaluations"},
                                           {"run", "Where it runs and what it writes"}};
  return all;
}

const Key* find_key(std::string_view name) {
  const auto found = std::ranges::find_if(schema(), [&](const Key& key) { return name == key.name; });
  return found == schema().end() ? nullptr : &*found;
}

std::string_view section_of(std::string_view key_name) {
  const std::size_t dot = key_name.find('.');
  return dot == std::string_view::npos ? std::string_view() : key_name.substr(0, dot);
}

std::string_view leaf_of(std::string_view key_name) { return key_name.substr(key_name.rfind('.') + 1); }

}  // namespace millrace::configuration
