// rl_run plot: learning curves of runs, in one picture.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <filesystem>

#include "apps/rl_run/commands.hpp"
#include "apps/rl_run/interrupt.hpp"
#include "runtime/config_reader.hpp"
#include "runtime/error.hpp"
#include "runtime/learning_curve.hpp"
#include "runtime/registry.hpp"

namespace millrace {

namespace {

/// Runs of one experiment on one environment, whatever their seeds; none if the folder does not say.
std::string group_of(const std::filesystem::path& folder) {
  try {
    const ExperimentConfig config =
        load_config(folder / "config.toml", {}, [](const std::string& id) { return parameter_fields(id); });
    return config.env.id + " " + config.experiment;
  } catch (const UserError&) {
    return {};
  }
}

}  // namespace

int run_plot(const PlotArguments& arguments) {
  Picture picture;
  picture.title = "greedy return";
  for (const std::string& path : arguments.paths) {
    const std::filesystem::path folder(path);
    Curve curve{folder.has_filename() ? folder.filename().string() : folder.parent_path().filename().string(),
                read_metric(folder / "metrics.jsonl", "eval/mean_reward"), group_of(folder)};
    if (curve.points.empty()) {
      throw UserError(fmt::format("plot: {} has no evaluation yet.", (folder / "metrics.jsonl").string()));
    }
    picture.curves.push_back(std::move(curve));
  }
  add_interquartile_means(picture);
  if (arguments.output) {
    if (const auto problem = draw_svg(picture, *arguments.output)) {
      throw RunError(fmt::format("No picture was drawn: {}.", *problem));
    }
    fmt::print("{}\n", *arguments.output);
    return kExitDone;
  }
  winsize size{};
  const int width = ::ioctl(1, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col - 1 : 79;
  const TerminalPicture drawn = draw_terminal(picture, width);
  if (drawn.problem) throw RunError(fmt::format("No picture was drawn: {}.", *drawn.problem));
  fmt::print("{}", drawn.text);
  return kExitDone;
}

}  // namespace millrace
