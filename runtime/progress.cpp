// What a person sees while a run goes on; see progress.hpp.
#include "runtime/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "runtime/trainer.hpp"

namespace millrace {
namespace {

constexpr double kTerminalSeconds = 0.1;
constexpr double kPlainSeconds = 1.0;
constexpr int kPlainWidth = 120;
constexpr int kNarrowestBar = 6;

Progress::Style resolve(Progress::Style style, int descriptor) {
  if (style != Progress::Style::kAuto) return style;
  const char* term = std::getenv("TERM");
  const bool redraws = ::isatty(descriptor) != 0 && term != nullptr && std::string_view(term) != "dumb";
  return redraws ? Progress::Style::kTerminal : Progress::Style::kPlain;
}

}  // namespace

std::string short_number(double value) {
  constexpr std::string_view kUnits[] = {"", "k", "M", "G", "T", "P"};
  std::size_t unit = 0;
  double scaled = std::abs(value);
  while (scaled >= 999.5 && unit + 1 < std::size(kUnits)) {
    scaled /= 1000.0;
    ++unit;
  }
  const int decimals = unit == 0 && scaled == std::floor(scaled) ? 0 : scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0;
  return fmt::format("{}{:.{}f}{}", value < 0.0 ? "-" : "", scaled, decimals, kUnits[unit]);
}

std::string short_duration(double seconds) {
  if (!(seconds >= 0.0) || !std::isfinite(seconds)) return "?";
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string progress_line(const ProgressState& state, int width) {
  const double share =
      state.total_steps > 0
          ? std::min(1.0, static_cast<double>(state.steps) / static_cast<double>(state.total_steps))
          : 0.0;
  const auto optional_number = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.1f}", *value) : std::string("-");
  };
  std::string text = fmt::format("{}/{} steps  {}/s  return {}  greedy {}  eps {:.2f}  loss {:.3g}  left {}",
                                 short_number(static_cast<double>(state.steps)),
                                 short_number(static_cast<double>(state.total_steps)), short_number(state.steps_per_s),
                                 optional_number(state.episode_return), optional_number(state.greedy_return),
                                 state.epsilon, state.loss, short_duration(state.left_s));
  if (state.quarantined > 0) text += fmt::format("  quarantined {}", state.quarantined);
  const std::string percent = fmt::format("{:3.0f}% ", 100.0 * share);
  const int bar = std::min(24, width - static_cast<int>(text.size() + percent.size()) - 3);
  std::string line = percent;
  if (bar >= kNarrowestBar) {
    const int full = static_cast<int>(std::lround(share * bar));
    line += '[';
    for (int i = 0; i < bar; ++i) line += i < full ? '#' : '.';
    line += "] ";
  }
  line += text;
  if (static_cast<int>(line.size()) > width) line.resize(static_cast<std::size_t>(std::max(0, width)));
  return line;
}

Progress::Progress(Style style, int descriptor) : style_(resolve(style, descriptor)), descriptor_(descriptor) {}

int Progress::width() const {
  if (style_ != Style::kTerminal) return kPlainWidth;
  winsize size{};
  if (::ioctl(descriptor_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col - 1;
  const char* columns = std::getenv("COLUMNS");
  const int value = columns != nullptr ? std::atoi(columns) : 0;
  return value > 1 ? value - 1 : 79;
}

void Progress::write(const std::string& text) const {
  // A display that cannot be written (a closed pipe) must not end a run.
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::write(descriptor_, text.data() + done, text.size() - done);
    if (count <= 0) return;
    done += static_cast<std::size_t>(count);
  }
}

void Progress::show(const ProgressState& state) {
  if (style_ == Style::kQuiet || finished_) return;
  pending_ = state;
  const double now = steady_seconds();
  if (now - last_s_ < (style_ == Style::kTerminal ? kTerminalSeconds : kPlainSeconds)) return;
  last_s_ = now;
  const std::string line = progress_line(state, width());
  write(style_ == Style::kTerminal ? "\r\x1b[K" + line : line + "\n");
  drawn_ = true;
  pending_.reset();
}

void Progress::note(const std::string& line) {
  if (style_ == Style::kQuiet) return;
  write((drawn_ && !finished_ && style_ == Style::kTerminal ? "\r\x1b[K" : "") + line + "\n");
}

void Progress::finish() {
  if (finished_) return;
  finished_ = true;
  if (style_ == Style::kQuiet) return;
  std::string text;
  if (pending_) text = (style_ == Style::kTerminal ? "\r\x1b[K" : "") + progress_line(*pending_, width());
  if (pending_ || (drawn_ && style_ == Style::kTerminal)) write(text + "\n");
}

}  // namespace millrace
