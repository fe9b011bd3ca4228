// Instances of one environment with all that StepArguments points to, for tests: stepping on any table, in
// any chunks and any split of groups.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "envs/philox.hpp"
#include "kernels/environment_kernels.hpp"
#include "tests/environments/registration.hpp"

namespace millrace::stepping {

inline const char* const kEnvironments[] = {"CartPole-v1",  "MountainCar-v0",   "Acrobot-v1",
                                            "Pendulum-v1",  "TestEndless-v0",   "TestFragile-v0",
                                            "TestCatch-v0", "TestTwoAgents-v0", "TestSlide-v0"};

/// Config bytes with the time limit set, if `limit` is not negative.
inline std::vector<std::byte> config_with_limit(const EnvironmentDescription& environment, int limit) {
  if (limit < 0) return environment.default_config;
  return make_environment_config(environment,
                                 {{"max_episode_steps", ParameterType::kInt, static_cast<double>(limit)}});
}

/// What one step left behind.
struct Snapshot {
  std::vector<std::uint32_t> observations, final_observations, rewards, flags;
  bool operator==(const Snapshot&) const = default;
};

class Stepped {
 public:
  Stepped(const EnvironmentDescription& environment, const EnvironmentKernels& kernels,
          std::vector<std::byte> config, int num_envs, std::uint64_t key, std::uint32_t first_instance = 0,
          bool stagger = false)
      : environment_(environment),
        kernels_(kernels),
        config_(std::move(config)),
        layout_(num_envs, environment.state_words, environment.num_agents),
        instances_(layout_.words(), 0xA5A5A5A5u),
        observations_(static_cast<std::size_t>(environment.num_agents * environment.observation_words) *
                          static_cast<std::size_t>(layout_.stride),
                      0x5A5A5A5Au),
        final_observations_(observations_),
        rewards_(static_cast<std::size_t>(environment.num_agents * layout_.stride), -12345.0f),
        flags_(static_cast<std::size_t>(layout_.stride), 0xFFu) {
    args_.config = config_.data();
    args_.key = key;
    args_.first_instance = first_instance;
    args_.layout = layout_;
    args_.observations = observations_.data();
    args_.final_observations = final_observations_.data();
    args_.rewards = rewards_.data();
    args_.flags = flags_.data();
    args_.instances = instances_.data();
    // Counters are the cell's to clear.
    for (const std::size_t row : {layout_.completed(), layout_.completed_length(), layout_.quarantined()})
      clear(row);
    for (int a = 0; a < layout_.agents; ++a) clear(layout_.completed_return(a));
    kernels_.reset(args_, 0, groups(), stagger);
  }
  Stepped(const Stepped&) = delete;
  Stepped& operator=(const Stepped&) = delete;

  /// One call of `num_steps` steps for each of the group ranges between `cuts`.
  void step(int num_steps, const std::vector<std::uint32_t>* actions, std::vector<int> cuts = {}) {
    args_.num_steps = num_steps;
    args_.source = actions == nullptr ? ActionSource::kRandom : ActionSource::kGiven;
    args_.actions = actions == nullptr ? nullptr : actions->data();
    cuts.push_back(groups());
    int first = 0;
    for (const int cut : cuts) {
      kernels_.step(args_, first, cut);
      first = cut;
    }
  }
  void observe() { kernels_.observe(args_, 0, groups()); }

  [[nodiscard]] Snapshot snapshot() const {
    std::vector<std::uint32_t> rewards(rewards_.size());
    std::memcpy(rewards.data(), rewards_.data(), rewards_.size() * 4);
    return {observations_, final_observations_, rewards, flags_};
  }
  [[nodiscard]] std::vector<std::uint32_t>& instances() { return instances_; }
  [[nodiscard]] const InstanceLayout& layout() const { return layout_; }
  [[nodiscard]] int groups() const { return layout_.stride / kGroup; }
  [[nodiscard]] const std::vector<std::uint32_t>& observations() const { return observations_; }
  [[nodiscard]] const std::vector<std::uint32_t>& final_observations() const { return final_observations_; }
  [[nodiscard]] const std::vector<float>& rewards() const { return rewards_; }
  [[nodiscard]] const std::vector<std::uint32_t>& flags() const { return flags_; }
  [[nodiscard]] std::uint32_t word(std::size_t row, int instance) const {
    return instances_[row + static_cast<std::size_t>(instance)];
  }
  [[nodiscard]] float real(std::size_t row, int instance) const {
    const std::uint32_t bits = word(row, instance);
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
  [[nodiscard]] const EnvironmentDescription& environment() const { return environment_; }

 private:
  void clear(std::size_t row) {
    std::fill_n(instances_.begin() + static_cast<std::ptrdiff_t>(row), layout_.stride, 0u);
  }

  const EnvironmentDescription& environment_;
  const EnvironmentKernels& kernels_;
  std::vector<std::byte> config_;
  InstanceLayout layout_;
  std::vector<std::uint32_t> instances_, observations_, final_observations_;
  std::vector<float> rewards_;
  std::vector<std::uint32_t> flags_;
  StepArguments args_{};
};

/// Actions for one step, drawn by (instance, step) alone, so that they do not depend on the number of
/// instances.
inline std::vector<std::uint32_t> actions_of_step(const EnvironmentDescription& environment,
                                                  const std::vector<std::byte>& config, int stride,
                                                  int step) {
  const int agents = environment.num_agents;
  std::vector<std::uint32_t> actions(static_cast<std::size_t>(environment.action_words * agents * stride));
  const int count = environment.rules.num_actions(config.data());
  for (int i = 0; i < stride; ++i) {
    Draws draws(4711, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(step), 77);
    for (int a = 0; a < agents; ++a) {
      for (int w = 0; w < environment.action_words; ++w) {
        std::uint32_t& place = actions[static_cast<std::size_t>((w * agents + a) * stride + i)];
        if (environment.is_discrete) {
          place = draws.below(static_cast<std::uint32_t>(count));
        } else {
          const float value = draws.uniform(-0.5f, 0.5f);
          std::memcpy(&place, &value, sizeof(value));
        }
      }
    }
  }
  return actions;
}

}  // namespace millrace::stepping
