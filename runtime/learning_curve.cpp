// Pictures of learning curves; see learning_curve.hpp.
#include "runtime/learning_curve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

#include "runtime/error.hpp"
#include "runtime/gnuplot.hpp"
#include "runtime/output_file.hpp"
#include "runtime/seed_statistics.hpp"

namespace millrace {
namespace {

constexpr std::size_t kMostPoints = 500;
constexpr std::size_t kLongestName = 80;

/// REQUIRES: the curve has begun and not ended at `step`.
double value_at(const std::vector<CurvePoint>& points, std::uint64_t step) {
  const auto above =
      std::lower_bound(points.begin(), points.end(), step,
                       [](const CurvePoint& point, std::uint64_t at) { return point.step < at; });
  if (above->step == step || above == points.begin()) return above->value;
  const CurvePoint& below = *std::prev(above);
  const double share = static_cast<double>(step - below.step) / static_cast<double>(above->step - below.step);
  return below.value + share * (above->value - below.value);
}

/// What is drawn of a curve: finite points, at most kMostPoints of them.
std::vector<std::pair<double, double>> drawn_points(const Curve& curve) {
  std::vector<std::pair<double, double>> finite;
  for (const CurvePoint& point : curve.points) {
    if (std::isfinite(point.value)) finite.emplace_back(static_cast<double>(point.step), point.value);
  }
  const std::size_t together = (finite.size() + kMostPoints - 1) / kMostPoints;
  if (together <= 1) return finite;
  std::vector<std::pair<double, double>> means;
  for (std::size_t first = 0; first < finite.size(); first += together) {
    const std::size_t last = std::min(first + together, finite.size());
    double x = 0.0;
    double y = 0.0;
    for (std::size_t i = first; i < last; ++i) {
      x += finite[i].first;
      y += finite[i].second;
    }
    const auto count = static_cast<double>(last - first);
    means.emplace_back(x / count, y / count);
  }
  return means;
}

/// "k" for thousands and so on, for the whole axis, so that its labels stay short and alike.
struct AxisUnit {
  double steps;
  std::string_view name;
};
AxisUnit axis_unit(double most_steps) {
  if (most_steps >= 2e9) return {1e9, "G"};
  if (most_steps >= 2e6) return {1e6, "M"};
  if (most_steps >= 2e3) return {1e3, "k"};
  return {1.0, ""};
}

std::string shortened(const std::string& name) {
  return name.size() <= kLongestName ? name : name.substr(0, kLongestName) + "...";
}

/// Empty if there is nothing to draw.
std::string script(const Picture& picture, std::string_view terminal, std::string_view extra) {
  std::vector<std::vector<std::pair<double, double>>> drawn;
  double most_steps = 0.0;
  for (const Curve& curve : picture.curves) {
    drawn.push_back(drawn_points(curve));
    for (const auto& point : drawn.back()) most_steps = std::max(most_steps, point.first);
  }
  const AxisUnit unit = axis_unit(most_steps);
  std::string plots;
  std::string data;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    if (drawn[i].empty()) continue;
    const Curve& curve = picture.curves[i];
    plots += fmt::format("{}'-' using 1:2 with {} linewidth {} title {}", plots.empty() ? "plot " : ", ",
                         drawn[i].size() == 1 ? "points" : "lines", curve.bold ? 4 : 1.5,
                         gnuplot_string(shortened(curve.name)));
    for (const auto& [steps, value] : drawn[i]) data += fmt::format("{} {}\n", steps / unit.steps, value);
    data += "e\n";
  }
  if (plots.empty()) return "";
  return fmt::format(
             "set encoding utf8\nset terminal {}\nset title {}\nset xlabel 'environment steps'\nset ylabel "
             "{}\n"
             "set format x '%g{}'\nset format y '%g'\nset offsets graph 0, 0, graph 0.05, graph 0.05\n{}\n",
             terminal, gnuplot_string(shortened(picture.title)), gnuplot_string(shortened(picture.y_label)),
             unit.name, extra) +
         plots + "\n" + data;
}

/// gnuplot begins a page with a form feed and pads it with blank lines and spaces.
std::string tidied(const std::string& page) {
  std::string text;
  for (std::size_t start = 0; start < page.size();) {
    const std::size_t end = std::min(page.find('\n', start), page.size());
    std::string line = page.substr(start, end - start);
    line.erase(std::remove(line.begin(), line.end(), '\f'), line.end());
    line.erase(line.find_last_not_of(" \r") + 1);
    if (!text.empty() || !line.empty()) text += line + '\n';
    start = end + 1;
  }
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}

}  // namespace

std::vector<CurvePoint> interquartile_mean_curve(const std::vector<Curve>& curves) {
  if (curves.empty()) return {};
  std::uint64_t begin = 0;
  std::uint64_t end = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::uint64_t> steps;
  for (const Curve& curve : curves) {
    if (curve.points.empty()) return {};
    begin = std::max(begin, curve.points.front().step);
    end = std::min(end, curve.points.back().step);
    for (const CurvePoint& point : curve.points) steps.push_back(point.step);
  }
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  std::vector<CurvePoint> means;
  for (const std::uint64_t step : steps) {
    if (step < begin || step > end) continue;
    std::vector<double> values;
    for (const Curve& curve : curves) values.push_back(value_at(curve.points, step));
    means.push_back({step, interquartile_mean(values)});
  }
  return means;
}

void add_interquartile_means(Picture& picture) {
  std::vector<std::string> groups;
  for (const Curve& curve : picture.curves) {
    const bool known = std::find(groups.begin(), groups.end(), curve.group) != groups.end();
    if (!curve.group.empty() && !known) groups.push_back(curve.group);
  }
  for (const std::string& group : groups) {
    std::vector<Curve> members;
    std::copy_if(picture.curves.begin(), picture.curves.end(), std::back_inserter(members),
                 [&](const Curve& curve) { return curve.group == group; });
    if (members.size() < 2) continue;
    Curve mean;
    mean.name = fmt::format("{}: interquartile mean of {}", group, members.size());
    mean.points = interquartile_mean_curve(members);
    mean.bold = true;
    picture.curves.push_back(std::move(mean));
  }
}

std::optional<std::string> draw_svg(const Picture& picture, const std::filesystem::path& path) {
  const std::string input =
      script(picture, "svg noenhanced size 900,540 dynamic background rgb 'white' font 'sans-serif,14'",
             "set key outside bottom center horizontal\nset grid");
  if (input.empty()) return "there are no points to draw";
  const GnuplotResult result = run_gnuplot(input);
  if (result.problem) return result.problem;
  try {
    write_text_atomically(path, result.output);
  } catch (const RunError& error) {
    return error.what();
  }
  return std::nullopt;
}

TerminalPicture draw_terminal(const Picture& picture, int width) {
  constexpr int kNarrowest = 40;
  constexpr int kWidest = 200;
  constexpr int kLines = 22;
  const std::string input = script(
      picture, fmt::format("dumb noenhanced size {},{}", std::clamp(width, kNarrowest, kWidest), kLines),
      "set key outside bottom center horizontal");
  if (input.empty()) return {"", "there are no points to draw"};
  const GnuplotResult result = run_gnuplot(input);
  if (result.problem) return {"", result.problem};
  return {tidied(result.output), std::nullopt};
}

}  // namespace millrace
