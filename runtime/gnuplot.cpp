// The program gnuplot as a function; see gnuplot.hpp.
#include "runtime/gnuplot.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

extern char** environ;

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::seconds(10);

/// Our ends of the three streams; -1: closed.
struct Streams {
  int input = -1, output = -1, errors = -1;
  Streams() = default;
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;
  ~Streams() {
    for (int* end : {&input, &output, &errors}) close(*end);
  }
  static void close(int& descriptor) {
    if (descriptor >= 0) ::close(descriptor);
    descriptor = -1;
  }
};

/// The child gets a process group of its own, so that an interrupt from the keyboard, which ends a run with a
/// last picture, does not end the picture too; and no blocked signals. Returns an error number.
int spawn(const Streams& child, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, child.input, 0);
  posix_spawn_file_actions_adddup2(&actions, child.output, 1);
  posix_spawn_file_actions_adddup2(&actions, child.errors, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  char program[] = "gnuplot";
  char no_start_up_files[] = "-d";
  char* arguments[] = {program, no_start_up_files, nullptr};
  const int error = ::posix_spawnp(&pid, program, &actions, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

/// Connects `ours` and `child`: sockets, because a write to one can do without SIGPIPE. Returns an error
/// number.
int connect(Streams& ours, Streams& child) {
  std::array<int, 2> pair{};
  for (const auto end : {&Streams::input, &Streams::output, &Streams::errors}) {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) return errno;
    ours.*end = pair[0];
    child.*end = pair[1];
  }
  return 0;
}

void send_some(int& descriptor, std::string_view& left) {
  const ssize_t count = ::send(descriptor, left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count > 0) left.remove_prefix(static_cast<std::size_t>(count));
  const bool failed = count < 0 && errno != EAGAIN && errno != EINTR;
  if (left.empty() || failed) Streams::close(descriptor);
}

void receive_some(int& descriptor, std::string& text) {
  std::array<char, 65536> buffer;
  const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
  if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
  if (count == 0 || (count < 0 && errno != EINTR)) Streams::close(descriptor);
}

/// False if the time was up before the program closed its streams.
bool converse(Streams& ours, std::string_view script, std::string& output, std::string& errors) {
  const Clock::time_point end = Clock::now() + kPatience;
  while (ours.output >= 0 || ours.errors >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return false;
    std::array<pollfd, 3> waits = {
        {{ours.input, POLLOUT, 0}, {ours.output, POLLIN, 0}, {ours.errors, POLLIN, 0}}};
    if (::poll(waits.data(), waits.size(), static_cast<int>(left.count())) < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    if (waits[0].revents != 0) send_some(ours.input, script);
    if (waits[1].revents != 0) receive_some(ours.output, output);
    if (waits[2].revents != 0) receive_some(ours.errors, errors);
  }
  return true;
}

/// The line of gnuplot's complaint that says what it is about: the last one that is not empty.
std::string complaint(std::string_view errors) {
  while (!errors.empty() && errors.back() == '\n') errors.remove_suffix(1);
  const std::size_t start = errors.rfind('\n');
  std::string line(start == std::string_view::npos ? errors : errors.substr(start + 1));
  std::replace_if(
      line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return line.substr(0, 200);
}

/// Bytes of the UTF-8 sequence at the start of `text`; 0 if there is none. Overlong forms and surrogates are
/// none.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t length = lead < 0x80                    ? 1
                             : lead >= 0xC2 && lead <= 0xDF ? 2
                             : lead >= 0xE0 && lead <= 0xEF ? 3
                             : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                            : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (length > 2) {
    if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F)) return 0;
    if ((lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F)) return 0;
  }
  return length;
}

/// Nothing but letters, digits and a few harmless marks stands in a script as itself, so nothing can end the
/// string or run a command. (Doubling the quotes of a single-quoted string is not enough: gnuplot 5.4 takes a
/// plot's title that begins with one for an empty title and the rest for commands.)
void append_character(std::string& result, char c) {
  const bool harmless = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                        c == ' ' || c == '.' || c == ',' || c == '-' || c == '_' || c == ':';
  if (harmless) {
    result += c;
  } else {
    result += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
  }
}

}  // namespace

GnuplotResult run_gnuplot(std::string_view script) {
  GnuplotResult result;
  Streams ours;
  pid_t pid = 0;
  {
    Streams child;
    if (const int error = connect(ours, child); error != 0) {
      result.problem = fmt::format("gnuplot cannot be started: {}", std::strerror(error));
      return result;
    }
    if (const int error = spawn(child, pid); error != 0) {
      result.problem =
          fmt::format("the program gnuplot cannot be started: {} (Debian's package is gnuplot-nox)",
                      std::strerror(error));
      return result;
    }
  }
  std::string errors;
  const bool in_time = converse(ours, script, result.output, errors);
  if (!in_time) ::kill(pid, SIGKILL);
  int status = 0;
  pid_t ended = 0;
  do {
    ended = ::waitpid(pid, &status, 0);
  } while (ended < 0 && errno == EINTR);
  if (!in_time) {
    result.problem = fmt::format("gnuplot did not answer within {} s", kPatience.count());
  } else if (ended == pid && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
    result.problem = fmt::format("gnuplot failed: {}", complaint(errors));
  } else if (result.output.empty()) {
    result.problem = "gnuplot drew nothing";
  }
  return result;
}

std::string gnuplot_string(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    if (length == 0 || first < 0x20 || first == 0x7F) {
      result += length == 0 ? '?' : ' ';
    } else {
      for (const char c : text.substr(0, length)) append_character(result, c);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result + "\"";
}

}  // namespace millrace
