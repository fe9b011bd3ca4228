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
};

struct Picture {
  std::string title;
  std::string y_label = "return";
  std::vector<Curve> curves;
};

/// Writes an SVG file. Returns what went wrong, for a line to a person (gnuplot is missing, the file cannot be
/// written); nothing if it is there.
[[nodiscard]] std::optional<std::string> draw_svg(const Picture& picture, const std::filesystem::path& path);

/// The picture in characters, `width` columns wide; or what went wrong.
struct TerminalPicture {
  std::string text;
  std::optional<std::string> problem;
};
[[nodiscard]] TerminalPicture draw_terminal(const Picture& picture, int width);

}  // namespace millrace
