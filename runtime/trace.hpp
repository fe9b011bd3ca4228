// One environment instance, step by step, as JSON lines: what `rl_run trace` prints.
//
// Thread safety: thread-compatible; one thread at a time for each object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/environment_kernels.hpp"

namespace millrace {

struct TraceOptions {
  std::optional<std::string> params;  ///< JSON object: fields of Config
  std::optional<std::string> state;   ///< JSON object: the state to start from; none: the instance's own reset
  std::uint64_t seed = 1;
  std::uint32_t instance = 0;
};

/// Takes one line of JSON, without its newline.
using LineSink = std::function<void(std::string_view)>;

class Tracer {
 public:
  /// Throws UserError for parameters that are unknown or out of range.
  Tracer(const EnvironmentDescription& environment, const TraceOptions& options);

  /// The start, then one line for each of `actions` (a JSON list; with several agents each is a list). Throws UserError;
  /// lines before the mistake have been handed over.
  void episode(const std::string& actions, const LineSink& sink);
  /// Isolated transitions: each line of `input` is {"state":...,"action":...}. `name` is for messages.
  void transitions(std::istream& input, std::string_view name, const LineSink& sink);

 private:
  struct StepResult {
    std::vector<float> rewards;
    bool terminated = false, truncated = false;
  };
  [[nodiscard]] std::vector<std::uint32_t> start_state() const;
  StepResult step(std::vector<std::uint32_t>& state, const std::vector<std::uint32_t>& action, std::uint32_t count,
                  std::int64_t episode_step) const;
  [[nodiscard]] std::string line(const std::vector<std::uint32_t>& state, const StepResult* result) const;

  const EnvironmentDescription& environment_;
  TraceOptions options_;
  std::vector<std::byte> config_;
};

}  // namespace millrace
