// What a person sees while a run goes on: two lines redrawn in place on a terminal, plain lines elsewhere.
// All on standard error, because standard output may hold JSON.
//
// Invariant: the cursor rests at the start of the line below the display and no mode of the terminal is
// changed, so it is left clean however the process ends. There are no colours, so nothing for NO_COLOR to
// take away. Thread safety: thread-compatible; one thread at a time for each object.
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
/// "1:02:03", "2:03" or "3.4 s"; "?" if negative or not finite.
[[nodiscard]] std::string short_duration(double seconds);
/// Where the run is (share, bar, steps, rate, time left) and how it does (returns, exploration, loss,
/// instances in quarantine), each in at most `width` columns of ASCII: what does not fit is left out whole,
/// from the end.
struct ProgressLines {
  std::string where;
  std::string how;
};
[[nodiscard]] ProgressLines progress_lines(const ProgressState& state, int width);

class Progress {
 public:
  enum class Style { kAuto, kTerminal, kPlain, kQuiet };
  /// kAuto: a terminal's display if `descriptor` is a terminal that can redraw one (TERM is set and not
  /// "dumb"), else plain lines.
  explicit Progress(Style style, int descriptor = 2);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { finish(); }

  /// Shows the state: at most ten times a second on a terminal; elsewhere at most once a second and, after
  /// the first ten lines, at each further percent or half minute.
  void show(const ProgressState& state);
  /// Shows a line that stays.
  void note(const std::string& line);
  /// Shows the last state and leaves the terminal clean. Later calls do nothing.
  void finish();

 private:
  void write(const std::string& text) const;
  [[nodiscard]] int width() const;
  [[nodiscard]] bool due(const ProgressState& state, double now) const;
  void draw(const ProgressState& state);

  Style style_;
  int descriptor_;
  double last_s_ = -1e9;
  std::uint64_t last_steps_ = 0;
  int lines_ = 0;       // shown so far
  bool drawn_ = false;  // the two lines above the cursor are the display
  bool finished_ = false;
  std::optional<ProgressState> pending_;
};

}  // namespace millrace
