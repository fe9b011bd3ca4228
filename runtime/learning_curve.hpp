// Pictures of learning curves, drawn by the program gnuplot: as SVG, and in characters for a terminal.
//
// Thread safety: each call starts a process of its own; no shared state.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/metrics_writer.hpp"

namespace millrace {

struct Curve {
  std::string name;
  std::vector<CurvePoint> points;
  std::string group = {};  ///< curves of one group are seeds of one experiment; empty: of none
  bool bold = false;
};

struct Picture {
  std::string title;
  std::string y_label = "return";
  std::vector<Curve> curves;
};

/// The interquartile mean of several curves, over the steps at which one of them has a point and all have
/// begun and none has ended; between its points a curve is taken as straight. Empty if there are no such
/// steps. REQUIRES: steps do not fall.
[[nodiscard]] std::vector<CurvePoint> interquartile_mean_curve(const std::vector<Curve>& curves);

/// Adds, for each group of two curves or more, their interquartile mean as a bold curve.
void add_interquartile_means(Picture& picture);

/// Writes an SVG file. Returns what went wrong, for a line to a person (gnuplot is missing, the file cannot
/// be written); nothing if it is there. A curve of more than 500 points is drawn through means of neighbours.
[[nodiscard]] std::optional<std::string> draw_svg(const Picture& picture, const std::filesystem::path& path);

/// The picture in characters, at most `width` columns wide (40 to 200), lines ending in newlines; or what
/// went wrong.
struct TerminalPicture {
  std::string text;
  std::optional<std::string> problem;
};
[[nodiscard]] TerminalPicture draw_terminal(const Picture& picture, int width);

}  // namespace millrace
