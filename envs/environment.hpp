// The environment contract: what a rule set must declare so that Millrace can step thousands of instances of it on
// CPU and GPU, list it, trace it, and configure it.
//
//   struct Corridor {
//     static constexpr const char* id = "Corridor-v0";
//     struct Config { std::int32_t length = 8; std::int32_t max_episode_steps = 50; };
//     struct State { std::int32_t cell; };
//     using Observation = VectorObservation<1>;
//     using Action = DiscreteAction<2>;
//
//     static constexpr auto config_fields = fields(
//         field("length", &Config::length, 2, 1000, "cells"),
//         field("max_episode_steps", &Config::max_episode_steps, 0, 1e9, "time limit in steps, 0 for none"));
//     static constexpr auto state_fields = fields(field("cell", &State::cell, 0, 999, "where the walker is"));
//     static constexpr auto observation_fields = components(component("cell", 0, 1, "cell / length"));
//
//     MILLRACE_FN static State reset(const Config&, Draws&) { return {0}; }
//     MILLRACE_FN static Step step(const Config& config, State& state, Action action, Draws&) {
//       state.cell += action.index == 1 ? 1 : (state.cell > 0 ? -1 : 0);
//       const bool home = state.cell >= config.length - 1;
//       return {home ? 1.0f : 0.0f, home};
//     }
//     MILLRACE_FN static Observation observe(const Config& config, const State& state) {
//       return {{static_cast<float>(state.cell) / static_cast<float>(config.length)}};
//     }
//   };
//
// `reset`, `step` and `observe` are called for one instance at a time, by any thread, with no other effect than their
// results. Every State member is 4 bytes (float, int32_t, uint32_t, or an array of them).
//
// Explicit vectors: an environment written as a template over the machine (lanes.hpp; see cartpole.hpp) that declares
// `template <class M> using On = ...` is stepped one vector register of instances at a time on the CPU.
//
// Optional members: `num_agents` (then step takes and returns arrays, and observe an agent index), `num_actions(config)`
// (fewer than Action::count), `solved_at` (the return at which the reference calls it solved), `summary` (one line).
// A Config member `max_episode_steps` is the time limit: the step that reaches it is truncated.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <type_traits>

#include "envs/lanes.hpp"
#include "envs/numerics.hpp"
#include "envs/philox.hpp"
#include "envs/platform.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

/// N real numbers.
template <int N, class Real = float>
struct VectorObservation {
  static_assert(N >= 1, "an observation has at least one component");
  static constexpr int size = N;         ///< network inputs
  static constexpr int words = N;        ///< 32-bit words stored
  static constexpr bool is_image = false;
  Real values[N];
};

/// C bit planes of H x W: an image whose pixels are 0 or 1, stored as bits. Bit (c * H + y) * W + x is pixel (c, y, x).
template <int C, int H, int W>
struct BitPlanes {
  static_assert(C >= 1 && H >= 1 && W >= 1, "an image has at least one pixel");
  static constexpr int channels = C, height = H, width = W;
  static constexpr int size = C * H * W;
  static constexpr int words = (size + 31) / 32;
  static constexpr bool is_image = true;
  std::uint32_t bits[words];

  MILLRACE_FN void set(int c, int y, int x) {
    const unsigned bit = static_cast<unsigned>((c * H + y) * W + x);
    bits[bit >> 5] |= 1u << (bit & 31u);
  }
  [[nodiscard]] MILLRACE_FN bool get(int c, int y, int x) const {
    const unsigned bit = static_cast<unsigned>((c * H + y) * W + x);
    return ((bits[bit >> 5] >> (bit & 31u)) & 1u) != 0;
  }
};

/// One of N choices.
template <int N, class Integer = std::int32_t>
struct DiscreteAction {
  static_assert(N >= 1, "there is at least one action");
  static constexpr int count = N;
  static constexpr bool is_discrete = true;
  Integer index;
};

/// N real numbers; the environment's `action_fields` give their ranges.
template <int N, class Real = float>
struct ContinuousAction {
  static_assert(N >= 1, "there is at least one component");
  static constexpr int size = N;
  static constexpr bool is_discrete = false;
  Real values[N];
};

/// What a step of a single-agent environment returns. `terminated`: the episode ended by the rules (a time limit is
/// not one of them: see max_episode_steps).
template <class M>
struct StepOf {
  typename M::Real reward;
  typename M::Mask terminated;
};
using Step = StepOf<Scalar>;

/// What a step of an environment with several agents returns.
template <int Agents>
struct AgentsStep {
  float rewards[Agents];
  bool terminated;
};

/// A named member of State or Config, with the range of legal values (inclusive) and a line of documentation.
template <class Owner, class Member>
struct Field {
  const char* name;
  Member Owner::*member;
  double low, high;
  const char* doc;
};

/// A named component of a vector observation or a continuous action.
struct Component {
  const char* name;
  double low, high;
  const char* doc;
};

inline constexpr double kUnbounded = std::numeric_limits<double>::infinity();

template <class Owner, class Member>
constexpr Field<Owner, Member> field(const char* name, Member Owner::*member, double low, double high,
                                     const char* doc = "") {
  return {name, member, low, high, doc};
}
constexpr Component component(const char* name, double low, double high, const char* doc = "") {
  return {name, low, high, doc};
}
template <class... F>
constexpr auto fields(F... f) {
  return std::tuple<F...>{f...};
}
template <class... C>
constexpr auto components(C... c) {
  return std::array<Component, sizeof...(C)>{c...};
}

namespace detail {

template <class Member>
inline constexpr bool is_word = std::is_same_v<Member, float> || std::is_same_v<Member, std::int32_t> ||
                                std::is_same_v<Member, std::uint32_t>;
template <class Member>
inline constexpr bool is_state_member = is_word<std::remove_all_extents_t<Member>> && std::rank_v<Member> <= 1;
template <class Member>
inline constexpr bool is_config_member =
    std::is_same_v<Member, float> || std::is_same_v<Member, std::int32_t> || std::is_same_v<Member, bool>;

template <class Fields>
struct FieldTraits;
template <class... Owner, class... Member>
struct FieldTraits<std::tuple<Field<Owner, Member>...>> {
  static constexpr std::size_t bytes = (std::size_t{0} + ... + sizeof(Member));
  static constexpr bool state_members = (is_state_member<Member> && ...);
  static constexpr bool config_members = (is_config_member<Member> && ...);
};

template <class E>
constexpr int agents() {
  if constexpr (requires { E::num_agents; }) {
    return E::num_agents;
  } else {
    return 1;
  }
}

template <class E>
using StepResult = std::conditional_t<agents<E>() == 1, Step, AgentsStep<agents<E>()>>;

template <class E>
concept HasReset = requires(const typename E::Config& config, Draws& draws) {
  { E::reset(config, draws) } -> std::same_as<typename E::State>;
};
template <class E>
concept HasSingleStep = requires(const typename E::Config& config, typename E::State& state,
                                 typename E::Action action, Draws& draws) {
  { E::step(config, state, action, draws) } -> std::same_as<Step>;
};
template <class E>
concept HasAgentsStep = requires(const typename E::Config& config, typename E::State& state,
                                 const typename E::Action (&actions)[agents<E>()], Draws& draws) {
  { E::step(config, state, actions, draws) } -> std::same_as<AgentsStep<agents<E>()>>;
};
template <class E>
concept HasSingleObserve = requires(const typename E::Config& config, const typename E::State& state) {
  { E::observe(config, state) } -> std::same_as<typename E::Observation>;
};
template <class E>
concept HasAgentsObserve = requires(const typename E::Config& config, const typename E::State& state, int agent) {
  { E::observe(config, state, agent) } -> std::same_as<typename E::Observation>;
};

}  // namespace detail

/// Compiles only if E keeps the contract; otherwise the first failed assertion names the member that is missing or
/// wrong. Returns true, for use in a static_assert or a concept.
template <class E>
consteval bool check_environment() {
  static_assert(requires { { E::id } -> std::convertible_to<const char*>; },
                "environment contract: `static constexpr const char* id` is missing");
  static_assert(requires { typename E::Config; }, "environment contract: `struct Config` is missing");
  static_assert(requires { typename E::State; }, "environment contract: `struct State` is missing");
  static_assert(requires { typename E::Observation; }, "environment contract: `using Observation` is missing");
  static_assert(requires { typename E::Action; }, "environment contract: `using Action` is missing");
  if constexpr (requires { typename E::Config; typename E::State; typename E::Observation; typename E::Action; }) {
    static_assert(std::is_trivially_copyable_v<typename E::State>,
                  "environment contract: State must be trivially copyable (no pointers that own, no std::vector)");
    static_assert(std::is_trivially_copyable_v<typename E::Config>,
                  "environment contract: Config must be trivially copyable");
    static_assert(std::is_default_constructible_v<typename E::Config>,
                  "environment contract: Config must have a default for every member");
    static_assert(sizeof(typename E::State) % 4 == 0 && alignof(typename E::State) == 4,
                  "environment contract: every State member must be float, int32_t, uint32_t or an array of them");
    static_assert(requires { E::Observation::words; E::Observation::size; E::Observation::is_image; },
                  "environment contract: Observation must be VectorObservation<N> or BitPlanes<C, H, W>");
    static_assert(requires { E::Action::is_discrete; },
                  "environment contract: Action must be DiscreteAction<N> or ContinuousAction<N>");
    static_assert(requires { E::state_fields; },
                  "environment contract: `static constexpr auto state_fields = fields(...)` is missing");
    static_assert(requires { E::config_fields; },
                  "environment contract: `static constexpr auto config_fields = fields(...)` is missing");
    if constexpr (requires { E::state_fields; E::config_fields; }) {
      using StateFields = detail::FieldTraits<std::remove_cvref_t<decltype(E::state_fields)>>;
      using ConfigFields = detail::FieldTraits<std::remove_cvref_t<decltype(E::config_fields)>>;
      static_assert(StateFields::state_members,
                    "environment contract: state_fields may name float, int32_t, uint32_t and arrays of them");
      static_assert(StateFields::bytes == sizeof(typename E::State),
                    "environment contract: state_fields must name every member of State, once");
      static_assert(ConfigFields::config_members,
                    "environment contract: config_fields may name float, int32_t and bool members");
    }
    if constexpr (requires { E::Observation::is_image; }) {
      if constexpr (!E::Observation::is_image) {
        static_assert(requires { E::observation_fields.size(); },
                      "environment contract: `static constexpr auto observation_fields = components(...)` is missing");
        if constexpr (requires { E::observation_fields.size(); }) {
          static_assert(E::observation_fields.size() == static_cast<std::size_t>(E::Observation::size),
                        "environment contract: observation_fields must name every component of Observation, in order");
        }
      }
    }
    if constexpr (requires { E::Action::is_discrete; }) {
      if constexpr (!E::Action::is_discrete) {
        static_assert(requires { E::action_fields.size(); },
                      "environment contract: `static constexpr auto action_fields = components(...)` is missing");
      }
    }
    static_assert(detail::agents<E>() >= 1, "environment contract: num_agents must be at least 1");
    static_assert(detail::HasReset<E>,
                  "environment contract: `static State reset(const Config&, Draws&)` is missing or has another type");
    if constexpr (detail::agents<E>() == 1) {
      static_assert(detail::HasSingleStep<E>,
                    "environment contract: `static Step step(const Config&, State&, Action, Draws&)` is missing or has "
                    "another type");
      static_assert(detail::HasSingleObserve<E>,
                    "environment contract: `static Observation observe(const Config&, const State&)` is missing or has "
                    "another type");
    } else {
      static_assert(detail::HasAgentsStep<E>,
                    "environment contract: `static AgentsStep<num_agents> step(const Config&, State&, const Action "
                    "(&)[num_agents], Draws&)` is missing or has another type");
      static_assert(detail::HasAgentsObserve<E>,
                    "environment contract: `static Observation observe(const Config&, const State&, int agent)` is "
                    "missing or has another type");
    }
  }
  return true;
}

/// An environment: `check_environment` says what is wrong with a type that is none.
template <class E>
concept Environment = requires {
  typename E::Config;
  typename E::State;
  typename E::Observation;
  typename E::Action;
  E::state_fields;
  E::config_fields;
} && detail::HasReset<E> && (detail::HasSingleStep<E> || detail::HasAgentsStep<E>) &&
    (detail::HasSingleObserve<E> || detail::HasAgentsObserve<E>);

/// Uniform access to what the contract makes optional, and to State as 32-bit words.
template <class E>
struct EnvironmentTraits {
  using Config = typename E::Config;
  using State = typename E::State;
  using Observation = typename E::Observation;
  using Action = typename E::Action;

  static constexpr int num_agents = detail::agents<E>();
  static constexpr int state_words = static_cast<int>(sizeof(State) / 4);
  static constexpr int observation_words = Observation::words;
  static constexpr int action_words = static_cast<int>(sizeof(Action) / 4);

  struct StateWords {
    std::uint32_t word[static_cast<std::size_t>(state_words)];
  };

  /// Steps after which an episode is truncated; 0: never.
  MILLRACE_FN static std::int32_t max_episode_steps(const Config& config) {
    if constexpr (requires { config.max_episode_steps; }) {
      return config.max_episode_steps;
    } else {
      return 0;
    }
  }

  /// How many discrete actions there are under `config`; 0 for continuous ones.
  MILLRACE_FN static int num_actions(const Config& config) {
    if constexpr (!Action::is_discrete) {
      return 0;
    } else if constexpr (requires { E::num_actions(config); }) {
      return E::num_actions(config);
    } else {
      return Action::count;
    }
  }

  /// Which words of State are floats.
  struct FloatWords {
    bool word[static_cast<std::size_t>(state_words)] = {};
  };
  static constexpr FloatWords float_words() {
    FloatWords floats;
    std::apply([&](const auto&... f) { (mark_words(f, floats), ...); }, E::state_fields);
    return floats;
  }

 private:
  template <class Member>
  static constexpr void mark_words(const Field<State, Member>& f, FloatWords& floats) {
    using Word = std::remove_all_extents_t<Member>;
    if constexpr (std::is_same_v<Word, float>) {
      State state{};
      if constexpr (std::is_array_v<Member>) {
        for (auto& value : state.*(f.member)) value = 1.0f;
      } else {
        state.*(f.member) = 1.0f;
      }
      const auto words = std::bit_cast<StateWords>(state);
      for (int w = 0; w < state_words; ++w) {
        if (words.word[w] != 0) floats.word[w] = true;
      }
    }
  }
};

}  // namespace MILLRACE_ISA
}  // namespace millrace
