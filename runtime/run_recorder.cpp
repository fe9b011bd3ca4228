// What a run leaves behind and shows; see run_recorder.hpp.
#include "runtime/run_recorder.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <bit>
#include <cstring>

namespace millrace {
namespace {

/// CleanRL's and Stable-Baselines3's names, so that their users' dashboards fit; and ours, where they have none.
std::vector<std::string> columns() {
  return {"charts/episodic_return",
          "charts/episodic_length",
          "charts/SPS",
          "charts/epsilon",
          "charts/learning_rate",
          "losses/td_loss",
          "losses/q_values",
          "rollout/ep_rew_mean",
          "rollout/ep_len_mean",
          "rollout/episodes",
          "rollout/instance_rew_mean",
          "rollout/running_rew_mean",
          "rollout/running_len_mean",
          "rollout/quarantined",
          "time/fps",
          "eval/mean_reward",
          "eval/std_reward",
          "eval/mean_ep_length",
          "eval/episodes"};
}

Progress::Style style_of(const RunOptions& options) {
  return options.quiet ? Progress::Style::kQuiet : Progress::Style::kAuto;
}

CheckpointWriterOptions writer_options(const ExperimentConfig& config, std::optional<std::uint64_t> resumed_step) {
  CheckpointWriterOptions options;
  options.keep_last = static_cast<std::size_t>(config.run.checkpoint_keep);
  options.resumed_step = resumed_step;
  return options;
}

int terminal_width() {
  winsize size{};
  if (::ioctl(2, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col - 1;
  return 79;
}

}  // namespace

RunRecorder::RunRecorder(const ExperimentConfig& config, const EnvironmentDescription& environment,
                         const RunFolder& folder, const RunOptions& options,
                         std::optional<std::uint64_t> resumed_step)
    : config_(config),
      environment_(environment),
      folder_(folder),
      options_(options),
      progress_(style_of(options)),
      metrics_(folder, columns(), resumed_step),
      checkpoints_(folder.checkpoints(), writer_options(config, resumed_step)) {
  state_.total_steps = static_cast<std::uint64_t>(num_iterations(config) * config.env.num_envs * config.algo.num_steps);
  progress_.note(fmt::format("{} with {} instances, seed {}; the run folder is {}", config.env.id, config.env.num_envs,
                             config.seed, folder.path().string()));
}

void RunRecorder::on_iteration(const IterationReport& report) {
  checkpoints_.throw_if_failed();
  const ChunkStatistics& s = report.statistics;
  MetricsRow row;
  row.step = report.at.steps;
  row.wall_s = report.at.wall_s;
  const auto episodes = static_cast<double>(s.episodes);
  if (s.episodes > 0) {
    state_.episode_return = s.return_sum / episodes;
    row.values = {{"charts/episodic_return", s.return_sum / episodes},
                  {"charts/episodic_length", s.length_sum / episodes},
                  {"rollout/ep_rew_mean", s.return_sum / episodes},
                  {"rollout/ep_len_mean", s.length_sum / episodes},
                  {"rollout/instance_rew_mean", s.instance_return_sum / static_cast<double>(s.instances)}};
  }
  const double loss = 0.5 * s.squared_error_mean;
  row.values.insert(row.values.end(), {{"rollout/episodes", episodes},
                                       {"rollout/running_rew_mean", s.running_return_mean},
                                       {"rollout/running_len_mean", s.running_length_mean},
                                       {"rollout/quarantined", static_cast<double>(s.quarantined)},
                                       {"charts/SPS", report.steps_per_s},
                                       {"time/fps", report.steps_per_s},
                                       {"charts/epsilon", report.epsilon},
                                       {"charts/learning_rate", report.learning_rate},
                                       {"losses/td_loss", loss},
                                       {"losses/q_values", s.value_mean}});
  metrics_.write(row);
  state_.steps = report.at.steps;
  state_.steps_per_s = report.steps_per_s;
  state_.epsilon = report.epsilon;
  state_.loss = loss;
  state_.quarantined = report.at.quarantined;
  state_.left_s = report.steps_per_s > 0.0
                      ? static_cast<double>(state_.total_steps - state_.steps) / report.steps_per_s
                      : 0.0;
  progress_.show(state_);
}

void RunRecorder::on_evaluation(const Progression& at, const EvaluationResult& result) {
  MetricsRow row;
  row.step = at.steps;
  row.wall_s = at.wall_s;
  row.values = {{"eval/mean_reward", result.return_mean},
                {"eval/std_reward", result.return_std},
                {"eval/mean_ep_length", result.length_mean},
                {"eval/episodes", static_cast<double>(result.episodes)}};
  metrics_.write(row);
  state_.greedy_return = result.return_mean;
  progress_.show(state_);
}

void RunRecorder::on_offence(const OffendingState& offence) {
  std::string text = fmt::format("{{\"instance\":{},\"state\":{{", offence.instance);
  bool first = true;
  for (const FieldDescription& field : environment_.state_fields) {
    for (int i = 0; i < field.count; ++i) {
      const std::uint32_t word = offence.state[field.offset / 4 + static_cast<std::size_t>(i)];
      const std::string name = field.is_array ? fmt::format("{}[{}]", field.name, i) : field.name;
      std::string value = field.type == FieldType::kFloat ? fmt::format("\"{}\"", std::bit_cast<float>(word))
                          : field.type == FieldType::kInt32
                              ? fmt::format("{}", static_cast<std::int32_t>(word))
                              : fmt::format("{}", word);
      text += fmt::format("{}\"{}\":{}", first ? "" : ",", name, value);
      first = false;
    }
  }
  text += "}}\n";
  write_text_atomically(folder_.path() / "offending_state.json", text);
  progress_.note(fmt::format("Instance {} came to a non-finite value and was reset; its state is in {}.",
                             offence.instance, (folder_.path() / "offending_state.json").string()));
}

void RunRecorder::on_checkpoint(Checkpoint&& checkpoint, const Progression& at, std::optional<double> score,
                                bool final) {
  metrics_.flush();  // a checkpoint's rows are in the files before it is, so that a resumed run has no holes
  checkpoints_.submit(std::move(checkpoint), at.steps, score,
                      final ? CheckpointWriter::Keep::kAlways : CheckpointWriter::Keep::kIfTimely);
}

void RunRecorder::finish() {
  progress_.finish();
  checkpoints_.flush();
  metrics_.flush();
}

std::string RunRecorder::last_checkpoint() const {
  const auto path = checkpoints_.last_written();
  return path ? path->string() : std::string();
}

void RunRecorder::draw() {
  Picture picture;
  picture.title = fmt::format("{}, {} instances, seed {}", config_.env.id, config_.env.num_envs, config_.seed);
  picture.curves = {{"greedy", read_metric(folder_.metrics_jsonl(), "eval/mean_reward")},
                    {"while training", read_metric(folder_.metrics_jsonl(), "charts/episodic_return")}};
  if (const auto problem = draw_svg(picture, folder_.learning_curve())) {
    progress_.note(fmt::format("No picture of the learning curve: {}.", *problem));
    return;
  }
  if (options_.quiet || !options_.picture) return;
  const TerminalPicture drawn = draw_terminal(picture, terminal_width());
  if (!drawn.problem) progress_.note(drawn.text);
}

}  // namespace millrace
