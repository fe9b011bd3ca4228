// Parses command lines; see commands.hpp.
// Values are taken whole: by default the library splits them at commas, and lists of actions have commas.
#define CXXOPTS_VECTOR_DELIMITER '\0'

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cxxopts.hpp>
#include <functional>
#include <limits>

#include "apps/rl_run/commands.hpp"
#include "apps/rl_run/interrupt.hpp"
#include "runtime/error.hpp"

namespace millrace {
namespace {

constexpr const char* kUsage =
    "rl_run trains Q-learning on thousands of environments at once.\n\n"
    "  rl_run train CONFIG [key.path=value...]   train from an experiment file\n"
    "  rl_run resume RUN [key.path=value...]     go on with a run\n"
    "  rl_run eval RUN_OR_CHECKPOINT             greedy episodes of a trained policy\n"
    "  rl_run plot RUN...                        learning curves\n"
    "  rl_run envs [ID]                          the environments and their parameters\n"
    "  rl_run trace ENV --actions '[0,1]'        one environment, step by step, as JSON lines\n\n"
    "rl_run COMMAND --help says more.\n";

using Words = std::vector<std::string>;

template <class Number>
Number number_of(const std::string& option, const std::string& text, Number low, Number high) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    throw UserError(fmt::format("--{}: \"{}\" is not allowed; give an integer from {} to {}.", option, text, low, high));
  }
  return value;
}

class CommandLine {
 public:
  CommandLine(std::string name, std::string positional, std::string summary)
      : name_(std::move(name)), options_("rl_run " + name_, std::move(summary)) {
    options_.custom_help("[options]");
    options_.positional_help(std::move(positional));
    options_.add_options()("h,help", "this text")("words", "", cxxopts::value<Words>());
    options_.parse_positional("words");
  }
  void flag(const std::string& option, const std::string& help) { options_.add_options()(option, help); }
  void value(const std::string& option, const std::string& help, const std::string& value_name) {
    options_.add_options()(option, help, cxxopts::value<Words>(), value_name);
  }

  /// False if only the help was wanted.
  bool parse(const Words& words) {
    std::vector<const char*> arguments = {"rl_run"};
    for (const std::string& word : words) arguments.push_back(word.c_str());
    try {
      parsed_ = options_.parse(static_cast<int>(arguments.size()), arguments.data());
    } catch (const cxxopts::exceptions::exception& error) {
      throw UserError(fmt::format("{}: {}; `rl_run {} --help` lists what is allowed.", name_, plain(error.what()), name_));
    }
    if (parsed_.count("help") == 0) return true;
    std::string help = options_.help();
    fmt::print("{}", help);
    return false;
  }
  [[nodiscard]] bool has(const std::string& option) const { return parsed_.count(option) > 0; }
  [[nodiscard]] std::optional<std::string> get(const std::string& option) const {
    if (!has(option)) return std::nullopt;
    if (parsed_.count(option) > 1) throw UserError(fmt::format("{}: --{} is given more than once.", name_, option));
    return parsed_[option].as<Words>().front();
  }
  [[nodiscard]] Words words() const { return has("words") ? parsed_["words"].as<Words>() : Words(); }

 private:
  /// The library quotes with typographic marks; one sentence in plain text is wanted.
  static std::string plain(std::string text) {
    for (const std::string mark : {"\u2018", "\u2019"}) {
      for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos;) text.replace(at, mark.size(), "'");
    }
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  }

  std::string name_;
  cxxopts::Options options_;
  cxxopts::ParseResult parsed_;
};

/// The one word that a command needs, and the overrides.
std::string only_word(const std::string& command, const std::string& what, Words words, Words* overrides) {
  std::optional<std::string> found;
  for (std::string& word : words) {
    if (overrides != nullptr && found && word.find('=') != std::string::npos) {
      overrides->push_back(std::move(word));
    } else if (!found) {
      found = std::move(word);
    } else {
      throw UserError(fmt::format("{}: \"{}\" is one word too many; {}", command, word,
                                  overrides != nullptr ? "settings have the form key.path=value."
                                                       : fmt::format("one {} is wanted.", what)));
    }
  }
  if (!found) throw UserError(fmt::format("{}: a {} is missing; `rl_run {} --help` says more.", command, what, command));
  return *found;
}

int train_command(const Words& words) {
  CommandLine line("train", "CONFIG [key.path=value...]", "Trains from an experiment file.");
  line.flag("dry-run", "print the resolved configuration and the memory plan, and stop");
  line.flag("json", "print one JSON object and nothing else");
  line.flag("quiet", "no progress display");
  line.value("run-dir", "the run folder, instead of a new one below run.runs_dir", "DIR");
  line.value("seeds", "runs with the seeds seed, seed+1, ...", "N");
  if (!line.parse(words)) return kExitDone;
  TrainArguments arguments;
  arguments.config_path = only_word("train", "configuration file", line.words(), &arguments.overrides);
  arguments.dry_run = line.has("dry-run");
  arguments.json = line.has("json");
  arguments.quiet = line.has("quiet");
  arguments.run_dir = line.get("run-dir");
  if (const auto seeds = line.get("seeds")) arguments.num_seeds = number_of<int>("seeds", *seeds, 1, 100'000);
  return run_train(arguments);
}

int resume_command(const Words& words) {
  CommandLine line("resume", "RUN [key.path=value...]", "Goes on with a run from its latest valid checkpoint.");
  line.flag("json", "print one JSON object and nothing else");
  line.flag("quiet", "no progress display");
  if (!line.parse(words)) return kExitDone;
  ResumeArguments arguments;
  arguments.path = only_word("resume", "run folder", line.words(), &arguments.overrides);
  arguments.json = line.has("json");
  arguments.quiet = line.has("quiet");
  return run_resume(arguments);
}

int eval_command(const Words& words) {
  CommandLine line("eval", "RUN_OR_CHECKPOINT", "Plays greedy episodes with a trained policy.");
  line.value("episodes", "how many (the run's eval.episodes)", "N");
  line.value("seed", "of the episodes (the run's own, in episodes it has not seen)", "S");
  line.flag("json", "print one JSON object and nothing else");
  if (!line.parse(words)) return kExitDone;
  EvalArguments arguments;
  arguments.path = only_word("eval", "run folder or checkpoint", line.words(), nullptr);
  if (const auto episodes = line.get("episodes")) arguments.episodes = number_of<int>("episodes", *episodes, 1, 1'000'000);
  if (const auto seed = line.get("seed")) {
    arguments.seed = number_of<std::uint64_t>("seed", *seed, 0, std::numeric_limits<std::int64_t>::max());
  }
  arguments.json = line.has("json");
  return run_eval(arguments);
}

int plot_command(const Words& words) {
  CommandLine line("plot", "RUN...", "Draws the learning curves of one or more runs.");
  line.value("output", "write an SVG file instead of drawing in the terminal", "FILE");
  if (!line.parse(words)) return kExitDone;
  PlotArguments arguments;
  arguments.paths = line.words();
  arguments.output = line.get("output");
  if (arguments.paths.empty()) throw UserError("plot: a run folder is missing; `rl_run plot --help` says more.");
  return run_plot(arguments);
}

int envs_command(const Words& words) {
  CommandLine line("envs", "[ID]", "Lists the environments, or all about one.");
  line.flag("json", "as JSON");
  if (!line.parse(words)) return kExitDone;
  EnvsArguments arguments;
  arguments.json = line.has("json");
  if (!line.words().empty()) arguments.id = only_word("envs", "environment", line.words(), nullptr);
  return run_envs(arguments);
}

int trace_command(const Words& words) {
  CommandLine line("trace", "ENV", "Steps one instance and prints a line of JSON for each step.");
  line.value("actions", "the actions, as a JSON list", "LIST");
  line.value("state", "the state to start from, as a JSON object", "OBJECT");
  line.value("params", "fields of the environment's Config, as a JSON object", "OBJECT");
  line.value("transitions", "JSON lines {\"state\":...,\"action\":...}, each a step of its own; - for standard input", "FILE");
  line.value("seed", "of resets and noise (1)", "S");
  line.value("instance", "global index of the instance (0)", "I");
  if (!line.parse(words)) return kExitDone;
  TraceArguments arguments;
  arguments.env_id = only_word("trace", "environment", line.words(), nullptr);
  arguments.actions = line.get("actions");
  arguments.state = line.get("state");
  arguments.params = line.get("params");
  arguments.transitions = line.get("transitions");
  if (const auto seed = line.get("seed")) {
    arguments.seed = number_of<std::uint64_t>("seed", *seed, 0, std::numeric_limits<std::int64_t>::max());
  }
  if (const auto instance = line.get("instance")) {
    arguments.instance = number_of<std::uint32_t>("instance", *instance, 0, std::numeric_limits<std::uint32_t>::max());
  }
  return run_trace(arguments);
}

}  // namespace

int run_command_line(const std::vector<std::string>& words) {
  if (words.empty()) {
    fmt::print(stderr, "{}", kUsage);
    return kExitMistake;
  }
  const std::string& command = words.front();
  const Words rest(words.begin() + 1, words.end());
  if (command == "--help" || command == "-h" || command == "help") {
    fmt::print("{}", kUsage);
    return kExitDone;
  }
  if (command == "--version") {
    fmt::print("rl_run {}\n", MILLRACE_VERSION);
    return kExitDone;
  }
  if (command == "train") return train_command(rest);
  if (command == "resume") return resume_command(rest);
  if (command == "eval") return eval_command(rest);
  if (command == "plot") return plot_command(rest);
  if (command == "envs") return envs_command(rest);
  if (command == "trace") return trace_command(rest);
  throw UserError(fmt::format("There is no command \"{}\"; there are train, resume, eval, plot, envs and trace.", command));
}

}  // namespace millrace
