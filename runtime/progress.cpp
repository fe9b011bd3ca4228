// What a person sees while a run goes on; see progress.hpp.
#include "runtime/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "runtime/trainer.hpp"

namespace millrace {
namespace {

constexpr double kTerminalSeconds = 0.1;
constexpr double kPlainSeconds = 1.0;
constexpr double kPlainPatience = 30.0;
constexpr int kFrequentLines = 10;
constexpr int kPlainWidth = 160;
constexpr int kNarrowestBar = 6;
constexpr int kWidestBar = 30;
/// Up over the display's two lines, and everything from there cleared.
constexpr std::string_view kErase = "\r\x1b[2A\x1b[J";

Progress::Style resolve(Progress::Style style, int descriptor) {
  if (style != Progress::Style::kAuto) return style;
  const char* term = std::getenv("TERM");
  const bool redraws = ::isatty(descriptor) != 0 && term != nullptr && std::string_view(term) != "dumb";
  return redraws ? Progress::Style::kTerminal : Progress::Style::kPlain;
}

double share_of(const ProgressState& state) {
  if (state.total_steps == 0) return 0.0;
  return std::min(1.0, static_cast<double>(state.steps) / static_cast<double>(state.total_steps));
}

/// The parts that fit into `width` columns, with two spaces between; empty parts do not count.
std::string fitting(const std::vector<std::string>& parts, int width) {
  std::string line;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    const std::string longer = line.empty() ? part : line + "  " + part;
    if (static_cast<int>(longer.size()) > width) break;
    line = longer;
  }
  return line;
}

std::string bar_of(double share, int width) {
  std::string bar = "[";
  const auto full = static_cast<int>(std::floor(share * (width - 2)));
  for (int i = 0; i < width - 2; ++i) bar += i < full ? '#' : '.';
  return bar + "]";
}

}  // namespace

std::string short_number(double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  constexpr std::string_view kUnits[] = {"", "k", "M", "G", "T", "P"};
  std::size_t unit = 0;
  double scaled = std::abs(value);
  while (scaled >= 999.5 && unit + 1 < std::size(kUnits)) {
    scaled /= 1000.0;
    ++unit;
  }
  const int decimals = unit == 0 && scaled == std::floor(scaled) ? 0
                       : scaled < 9.995                          ? 2
                       : scaled < 99.95                          ? 1
                                                                 : 0;
  return fmt::format("{}{:.{}f}{}", value < 0.0 ? "-" : "", scaled, decimals, kUnits[unit]);
}

std::string short_duration(double seconds) {
  if (!(seconds >= 0.0) || !std::isfinite(seconds)) return "?";
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

ProgressLines progress_lines(const ProgressState& state, int width) {
  const double share = share_of(state);
  const auto optional_number = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.1f}", *value) : std::string("-");
  };
  const std::string percent = fmt::format("{:3.0f}%", std::floor(100.0 * share));
  const std::string rest =
      fitting({fmt::format("{}/{} steps", short_number(static_cast<double>(state.steps)),
                           short_number(static_cast<double>(state.total_steps))),
               short_number(state.steps_per_s) + "/s", "left " + short_duration(state.left_s)},
              width - static_cast<int>(percent.size()) - 2);
  const int bar = std::min(kWidestBar, width - static_cast<int>(percent.size() + rest.size()) - 5);
  std::vector<std::string> how = {
      "return " + optional_number(state.episode_return), "greedy " + optional_number(state.greedy_return),
      fmt::format("eps {:.2f}", state.epsilon), fmt::format("loss {:.3g}", state.loss)};
  // What went wrong must not be what falls off a narrow terminal.
  if (state.quarantined > 0) how.insert(how.begin(), fmt::format("quarantined {}", state.quarantined));
  ProgressLines lines;
  lines.where = fitting({percent, bar >= kNarrowestBar ? bar_of(share, bar) : "", rest}, width);
  lines.how = fitting(how, width);
  return lines;
}

Progress::Progress(Style style, int descriptor)
    : style_(resolve(style, descriptor)), descriptor_(descriptor) {}

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
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    done += static_cast<std::size_t>(count);
  }
}

bool Progress::due(const ProgressState& state, double now) const {
  const double passed = now - last_s_;
  if (style_ == Style::kTerminal) return passed >= kTerminalSeconds;
  if (passed < kPlainSeconds) return false;
  // A log of a run over hours should not have a line for each of its seconds.
  const bool further =
      static_cast<double>(state.steps - last_steps_) >= 0.01 * static_cast<double>(state.total_steps);
  return lines_ < kFrequentLines || further || passed >= kPlainPatience;
}

void Progress::draw(const ProgressState& state) {
  if (style_ == Style::kTerminal) {
    const ProgressLines lines = progress_lines(state, width());
    write(std::string(drawn_ ? kErase : "") + lines.where + "\n" + lines.how + "\n");
    drawn_ = true;
  } else {
    const ProgressLines lines = progress_lines(state, kPlainWidth / 2);
    write(lines.where + "  " + lines.how + "\n");
  }
  last_steps_ = state.steps;
  ++lines_;
  pending_.reset();
}

void Progress::show(const ProgressState& state) {
  if (style_ == Style::kQuiet || finished_) return;
  pending_ = state;
  const double now = steady_seconds();
  if (!due(state, now)) return;
  last_s_ = now;
  draw(state);
}

void Progress::note(const std::string& line) {
  if (style_ == Style::kQuiet) return;
  write(std::string(drawn_ && !finished_ ? kErase : "") + line + "\n");
  drawn_ = false;
}

void Progress::finish() {
  if (finished_) return;
  if (pending_ && style_ != Style::kQuiet) {
    draw(*pending_);
  }
  finished_ = true;
}

}  // namespace millrace
