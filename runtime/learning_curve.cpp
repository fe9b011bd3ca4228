// Pictures of learning curves; see learning_curve.hpp.
#include "runtime/learning_curve.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include "runtime/output_file.hpp"
#include "runtime/error.hpp"

extern char** environ;

namespace millrace {
namespace {

/// A gnuplot string that shows `text` as it is: in single quotes only a single quote is special, and `noenhanced`
/// switches markup off.
std::string gnuplot_text(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') {
      result += "''";
    } else {
      result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return result + "'";
}

std::string script(const Picture& picture, std::string_view terminal) {
  std::string text = fmt::format(
      "set terminal {}\nset title {} noenhanced\nset xlabel 'environment steps' noenhanced\nset ylabel {} noenhanced\n"
      "set key bottom right noenhanced\nset format x '%.1s%c'\nset grid\n",
      terminal, gnuplot_text(picture.title), gnuplot_text(picture.y_label));
  std::string plots;
  std::string data;
  for (const Curve& curve : picture.curves) {
    if (curve.points.empty()) continue;
    plots += fmt::format("{}'-' using 1:2 with {} title {}", plots.empty() ? "plot " : ", ",
                         curve.points.size() == 1 ? "points" : "lines", gnuplot_text(curve.name));
    for (const CurvePoint& point : curve.points) data += fmt::format("{} {}\n", point.step, point.value);
    data += "e\n";
  }
  return plots.empty() ? std::string() : text + plots + "\n" + data;
}

struct ProgramResult {
  std::string output;
  std::optional<std::string> problem;
};

/// Runs gnuplot with `input` on its standard input, and returns what it prints.
ProgramResult run_gnuplot(const std::string& input) {
  int in[2];
  int out[2];
  if (::pipe2(in, O_CLOEXEC) != 0) return {"", std::strerror(errno)};
  if (::pipe2(out, O_CLOEXEC) != 0) {
    const int error = errno;
    ::close(in[0]);
    ::close(in[1]);
    return {"", std::strerror(error)};
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  char name[] = "gnuplot";
  char* arguments[] = {name, nullptr};
  pid_t child = 0;
  const int spawned = ::posix_spawnp(&child, name, &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(in[0]);
  ::close(out[1]);
  ProgramResult result;
  if (spawned != 0) {
    ::close(in[1]);
    ::close(out[0]);
    result.problem = "the program gnuplot cannot be started (Debian's package is gnuplot-nox)";
    return result;
  }
  ::fcntl(in[1], F_SETFL, O_NONBLOCK);
  std::size_t sent = 0;
  bool sending = true;
  for (bool reading = true; reading;) {
    pollfd waits[2] = {{out[0], POLLIN, 0}, {sending ? in[1] : -1, POLLOUT, 0}};
    if (::poll(waits, 2, -1) < 0 && errno != EINTR) break;
    if (sending && waits[1].revents != 0) {
      const ssize_t count = ::write(in[1], input.data() + sent, input.size() - sent);
      if (count > 0) sent += static_cast<std::size_t>(count);
      if (sent == input.size() || (count < 0 && errno != EAGAIN && errno != EINTR)) {
        ::close(in[1]);
        sending = false;
      }
    }
    if (waits[0].revents != 0) {
      char buffer[16384];
      const ssize_t count = ::read(out[0], buffer, sizeof(buffer));
      if (count > 0) result.output.append(buffer, static_cast<std::size_t>(count));
      if (count == 0 || (count < 0 && errno != EINTR)) reading = false;
    }
  }
  if (sending) ::close(in[1]);
  ::close(out[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) result.problem = "gnuplot failed";
  return result;
}

}  // namespace

std::optional<std::string> draw_svg(const Picture& picture, const std::filesystem::path& path) {
  const std::string input = script(picture, "svg size 900,540 dynamic background rgb 'white' font 'sans-serif,14'");
  if (input.empty()) return "there are no points to draw";
  const ProgramResult result = run_gnuplot(input);
  if (result.problem) return result.problem;
  try {
    write_text_atomically(path, result.output);
  } catch (const RunError& error) {
    return error.what();
  }
  return std::nullopt;
}

TerminalPicture draw_terminal(const Picture& picture, int width) {
  const std::string input = script(picture, fmt::format("dumb size {},20", std::clamp(width, 40, 200)));
  if (input.empty()) return {"", "there are no points to draw"};
  const ProgramResult result = run_gnuplot(input);
  return {result.output, result.problem};
}

}  // namespace millrace
