#include "runtime/progress.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace millrace {
namespace {

ProgressState halfway() {
  ProgressState state;
  state.steps = 1'040'000;
  state.total_steps = 2'000'000;
  state.steps_per_s = 1'310'000.0;
  state.episode_return = 312.44;
  state.greedy_return = 487.25;
  state.epsilon = 0.31;
  state.loss = 0.012345;
  state.left_s = 0.73;
  return state;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

/// Reads all that is written to `writing`'s other end until `writing` and its duplicates are closed.
class Reader {
 public:
  Reader(int reading, int writing)
      : writing_(writing), thread_([this, reading] {
          std::array<char, 4096> buffer{};
          for (ssize_t n = 0; (n = ::read(reading, buffer.data(), buffer.size())) > 0;) {
            text_.append(buffer.data(), static_cast<std::size_t>(n));
          }
          ::close(reading);
        }) {}
  ~Reader() {
    if (thread_.joinable()) (void)text();
  }
  [[nodiscard]] int descriptor() const { return writing_; }
  std::string text() {
    ::close(writing_);
    thread_.join();
    return text_;
  }

 private:
  int writing_;
  std::string text_;
  std::thread thread_;
};

std::unique_ptr<Reader> pipe_reader() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return nullptr;
  return std::make_unique<Reader>(ends[0], ends[1]);
}

std::unique_ptr<Reader> terminal_reader(unsigned short columns) {
  int controller = -1;
  int terminal = -1;
  winsize size{};
  size.ws_col = columns;
  size.ws_row = 24;
  if (::openpty(&controller, &terminal, nullptr, nullptr, &size) != 0) return nullptr;
  return std::make_unique<Reader>(controller, terminal);
}

/// What a terminal would show: understands the few things that the display uses.
std::vector<std::string> screen_of(const std::string& text) {
  std::vector<std::string> lines(1);
  std::size_t row = 0;
  std::size_t column = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r') {
      column = 0;
    } else if (text[i] == '\n') {
      if (++row == lines.size()) lines.emplace_back();
    } else if (text.compare(i, 4, "\x1b[2A") == 0) {
      EXPECT_GE(row, 2u) << "up over the top";
      row -= std::min<std::size_t>(row, 2);
      i += 3;
    } else if (text.compare(i, 3, "\x1b[J") == 0) {
      lines.resize(row + 1);
      lines[row].resize(column);
      i += 2;
    } else {
      EXPECT_NE(text[i], '\x1b') << "an unknown sequence";
      lines[row].resize(std::max(lines[row].size(), column + 1), ' ');
      lines[row][column++] = text[i];
    }
  }
  return lines;
}

class TermIs {
 public:
  explicit TermIs(const char* value) {
    const char* old = std::getenv("TERM");
    if (old != nullptr) old_ = old;
    had_ = old != nullptr;
    value != nullptr ? ::setenv("TERM", value, 1) : ::unsetenv("TERM");
  }
  ~TermIs() { had_ ? ::setenv("TERM", old_.c_str(), 1) : ::unsetenv("TERM"); }

 private:
  std::string old_;
  bool had_ = false;
};

TEST(ProgressText, NumbersAreShort) {
  const std::vector<std::pair<double, std::string>> known = {
      {0.0, "0"},         {1.0, "1"},         {999.0, "999"},     {1000.0, "1.00k"},   {1234567.0, "1.23M"},
      {12345.0, "12.3k"}, {123456.0, "123k"}, {999499.0, "999k"}, {999500.0, "1.00M"}, {2e6, "2.00M"},
      {3.9e8, "390M"},    {1e9, "1.00G"},     {9.996e3, "10.0k"}, {-1234.0, "-1.23k"}, {0.25, "0.25"},
      {1e12, "1.00T"},    {99960.0, "100k"},
  };
  for (const auto& [value, text] : known) EXPECT_EQ(short_number(value), text);
  EXPECT_EQ(short_number(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(short_number(std::nan("")), "nan");
}

TEST(ProgressText, NumbersNeverGrowLong) {
  for (double value = 1.0; value < 9e17; value *= 1.0371) {
    EXPECT_LE(short_number(value).size(), 5u) << value;
  }
}

TEST(ProgressText, DurationsReadLikeClocks) {
  const std::vector<std::pair<double, std::string>> known = {
      {0.0, "0.0 s"},  {3.44, "3.4 s"},     {59.94, "59.9 s"},   {59.96, "1:00"},         {61.0, "1:01"},
      {123.0, "2:03"}, {3599.6, "1:00:00"}, {3723.0, "1:02:03"}, {360000.0, "100:00:00"},
  };
  for (const auto& [seconds, text] : known) EXPECT_EQ(short_duration(seconds), text);
  for (const double odd : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(short_duration(odd), "?");
  }
}

TEST(ProgressText, LinesShowEverything) {
  const ProgressLines lines = progress_lines(halfway(), 79);
  EXPECT_EQ(lines.where, " 52%  [##############..............]  1.04M/2.00M steps  1.31M/s  left 0.7 s");
  EXPECT_EQ(lines.how, "return 312.4  greedy 487.2  eps 0.31  loss 0.0123");
}

TEST(ProgressText, LinesFitAnyWidthInWholeParts) {
  const std::vector<std::string> whole = {" 52%",         "1.04M/2.00M steps", "1.31M/s",
                                          "left 0.7 s",   "quarantined 12",    "return 312.4",
                                          "greedy 487.2", "eps 0.31",          "loss 0.0123"};
  ProgressState state = halfway();
  state.quarantined = 12;
  for (int width = 0; width < 120; ++width) {
    const ProgressLines lines = progress_lines(state, width);
    for (const std::string& line : {lines.where, lines.how}) {
      EXPECT_LE(line.size(), static_cast<std::size_t>(width));
      for (std::size_t start = 0; start < line.size();) {
        const std::size_t end = std::min(line.find("  ", start), line.size());
        const std::string part = line.substr(start, end - start);
        const bool bar = part.starts_with("[") && part.ends_with("]");
        EXPECT_TRUE(bar || std::count(whole.begin(), whole.end(), part) == 1) << '"' << part << '"';
        start = end + 2;
      }
    }
  }
}

TEST(ProgressText, PercentIsFullOnlyAtTheEnd) {
  ProgressState state = halfway();
  state.steps = state.total_steps - 1;
  EXPECT_EQ(progress_lines(state, 79).where.find(" 99%"), 0u);
  EXPECT_NE(progress_lines(state, 79).where.find(".]"), std::string::npos);
  state.steps = state.total_steps;
  EXPECT_EQ(progress_lines(state, 79).where.find("100%"), 0u);
  state.steps = 3 * state.total_steps;
  EXPECT_EQ(progress_lines(state, 79).where.find("100%"), 0u);
  state.total_steps = 0;
  EXPECT_EQ(progress_lines(state, 79).where.find("  0%"), 0u);
}

TEST(ProgressText, QuarantineIsShownOnlyIfThereIsOne) {
  ProgressState state = halfway();
  EXPECT_EQ(progress_lines(state, 79).how.find("quarantined"), std::string::npos);
  state.quarantined = 3;
  EXPECT_NE(progress_lines(state, 40).how.find("quarantined 3"), std::string::npos);
}

TEST(ProgressText, UnknownReturnsAreDashes) {
  ProgressState state = halfway();
  state.episode_return.reset();
  state.greedy_return.reset();
  EXPECT_EQ(progress_lines(state, 79).how.find("return -  greedy -"), 0u);
}

TEST(ProgressDisplay, APipeGetsPlainLinesAtALimitedRate) {
  const auto pipe = pipe_reader();
  ASSERT_TRUE(pipe);
  const auto start = std::chrono::steady_clock::now();
  {
    Progress progress(Progress::Style::kAuto, pipe->descriptor());
    ProgressState state = halfway();
    for (std::uint64_t i = 1; i <= 2000; ++i) {
      state.steps = 1000 * i;
      progress.show(state);
    }
  }
  const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::string text = pipe->text();
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_LE(static_cast<double>(count(text, "\n")), 2.0 + passed);  // the first, one a second, the last
  EXPECT_EQ(text.find("  0%"), 0u);
  EXPECT_NE(text.find("100%"), std::string::npos);
  EXPECT_TRUE(text.ends_with("\n"));
}

TEST(ProgressDisplay, ATerminalIsRedrawnInPlaceAndLeftClean) {
  const TermIs term("xterm-256color");
  const auto terminal = terminal_reader(80);
  ASSERT_TRUE(terminal);
  const auto start = std::chrono::steady_clock::now();
  {
    Progress progress(Progress::Style::kAuto, terminal->descriptor());
    ProgressState state = halfway();
    for (std::uint64_t i = 1; i <= 2000; ++i) {
      state.steps = 1000 * i;
      progress.show(state);
    }
    progress.note("a note that stays");
    progress.show(state);
    progress.finish();
    progress.show(state);  // does nothing any more
  }
  const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::string text = terminal->text();
  EXPECT_LE(static_cast<double>(count(text, " steps  ")), 3.0 + 10.0 * passed);
  const std::vector<std::string> screen = screen_of(text);
  ASSERT_EQ(screen.size(), 4u) << text;
  EXPECT_EQ(screen[0], "a note that stays");
  EXPECT_EQ(screen[1].find("100%"), 0u);
  EXPECT_LT(screen[1].size(), 80u);
  EXPECT_EQ(screen[2].find("return 312.4"), 0u);
  EXPECT_EQ(screen[3], "");
}

TEST(ProgressDisplay, TheCursorIsBelowTheDisplayAtAnyMoment) {
  const TermIs term("xterm");
  const auto terminal = terminal_reader(60);
  ASSERT_TRUE(terminal);
  auto progress = std::make_unique<Progress>(Progress::Style::kAuto, terminal->descriptor());
  progress->show(halfway());
  const std::string text = [&] {
    progress.reset();
    return terminal->text();
  }();
  const std::vector<std::string> screen = screen_of(text);
  ASSERT_EQ(screen.size(), 3u);
  for (const std::string& line : screen) EXPECT_LT(line.size(), 60u);
  EXPECT_EQ(screen[2], "");
  EXPECT_EQ(count(text, "\x1b["), 0u) << "one drawing needs no sequence, and the end adds none";
}

TEST(ProgressDisplay, DumbTerminalsGetPlainLines) {
  for (const char* value : {"dumb", static_cast<const char*>(nullptr)}) {
    const TermIs term(value);
    const auto terminal = terminal_reader(80);
    ASSERT_TRUE(terminal);
    {
      Progress progress(Progress::Style::kAuto, terminal->descriptor());
      progress.show(halfway());
      progress.note("note");
    }
    const std::string text = terminal->text();
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_NE(text.find("greedy 487.2"), std::string::npos);
    EXPECT_NE(text.find("note"), std::string::npos);
  }
}

TEST(ProgressDisplay, QuietShowsNothing) {
  const auto pipe = pipe_reader();
  ASSERT_TRUE(pipe);
  {
    Progress progress(Progress::Style::kQuiet, pipe->descriptor());
    progress.show(halfway());
    progress.note("note");
    progress.finish();
  }
  EXPECT_EQ(pipe->text(), "");
}

TEST(ProgressDisplay, TheLastStateIsShownOnce) {
  const auto pipe = pipe_reader();
  ASSERT_TRUE(pipe);
  {
    Progress progress(Progress::Style::kPlain, pipe->descriptor());
    progress.show(halfway());
    progress.finish();
    progress.finish();
  }
  EXPECT_EQ(count(pipe->text(), "\n"), 1u);
}

TEST(ProgressDisplay, NothingToWriteToIsNoFailure) {
  Progress progress(Progress::Style::kPlain, -1);
  progress.show(halfway());
  progress.note("note");
  progress.finish();
}

}  // namespace
}  // namespace millrace
