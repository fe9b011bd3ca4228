// What a person sees while a run goes on: one line redrawn in place on a terminal, plain lines elsewhere. All on
// standard error, because standard output may hold JSON.
//
// Thread safety: thread-compatible; one thread at a time for each object.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace millrace {

struct ProgressState {
  std::uint64_t steps = 0, total_steps = 0;
  double steps_per_s = 0.0;
  std::optional<double> episode_return;  ///< while training
  std::optional<double> greedy_return;   ///< of the last evaluation
  double epsilon = 0.0;
  double loss = 0.0;
  double left_s = 0.0;
  std::uint64_t quarantined = 0;
};

/// "1.23M" for 1234567; four significant digits at most.
[[nodiscard]] std::string short_number(double value);
/// "1:02:03", "2:03" or "3.4 s".
[[nodiscard]] std::string short_duration(double seconds);
/// One line of at most `width` columns; the bar takes what is left.
[[nodiscard]] std::string progress_line(const ProgressState& state, int width);

class Progress {
 public:
  enum class Style { kAuto, kTerminal, kPlain, kQuiet };
  /// kAuto: a terminal's line if `descriptor` is a terminal that can redraw one, else plain lines.
  explicit Progress(Style style, int descriptor = 2);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { finish(); }

  /// Shows the state, at most ten times a second on a terminal, once a second elsewhere.
  void show(const ProgressState& state);
  /// Shows a line that stays.
  void note(const std::string& line);
  /// Shows the last state and leaves the terminal clean. Later calls do nothing.
  void finish();

 private:
  void write(const std::string& text) const;
  [[nodiscard]] int width() const;

  Style style_;
  int descriptor_;
  double last_s_ = -1e9;
  bool drawn_ = false;
  bool finished_ = false;
  std::optional<ProgressState> pending_;
};

}  // namespace millrace
