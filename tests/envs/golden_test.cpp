// The classic environments against golden data of the real Gymnasium (tests/golden/): float against double.
//
// Tolerances are in units of float's epsilon, 2^-23, and stated for each environment below; scale(s) = max(1,
// |s|). Acrobot's step integrates 0.2 s at up to 28 rad/s and is ill-conditioned there: its tolerance is
// relative to what one epsilon in the state before the step does to the exact result
// (`acrobot_conditioning`).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "envs/acrobot.hpp"
#include "envs/cartpole.hpp"
#include "envs/mountaincar.hpp"
#include "envs/pendulum.hpp"
#include "tests/golden/golden.hpp"

namespace millrace {
namespace {

const std::string kFolder = std::string(MILLRACE_SOURCE_DIR) + "/tests/golden/data";
constexpr double kEpsilon = 0x1p-23;
constexpr double kPi = 3.14159265358979323846;
using State64 = std::array<double, 4>;

double scale(double value) { return std::max(1.0, std::fabs(value)); }
double scale(double before, double after) { return std::max(scale(before), scale(after)); }

/// One step of the acrobot in double: the textbook's equations of motion, integrated by RK4, neither wrapped
/// nor clipped.
State64 acrobot_step(const State64& start, double torque) {
  const auto slope = [&](const State64& s) {
    const double d1 = 3.5 + std::cos(s[1]), d2 = 1.25 + 0.5 * std::cos(s[1]);
    const double phi2 = 4.9 * std::sin(s[0] + s[1]);
    const double phi1 = -0.5 * s[3] * (s[3] + 2.0 * s[2]) * std::sin(s[1]) + 14.7 * std::sin(s[0]) + phi2;
    const double second =
        (torque + d2 / d1 * phi1 - 0.5 * s[2] * s[2] * std::sin(s[1]) - phi2) / (1.25 - d2 * d2 / d1);
    return State64{s[2], s[3], -(d2 * second + phi1) / d1, second};
  };
  const auto moved = [&](const State64& k, double dt) {
    State64 s = start;
    for (std::size_t f = 0; f < 4; ++f) s[f] += dt * k[f];
    return s;
  };
  const State64 k1 = slope(start), k2 = slope(moved(k1, 0.1)), k3 = slope(moved(k2, 0.1)),
                k4 = slope(moved(k3, 0.2));
  State64 next = start;
  for (std::size_t f = 0; f < 4; ++f) next[f] += 0.2 / 6.0 * (k1[f] + 2.0 * k2[f] + 2.0 * k3[f] + k4[f]);
  return next;
}

/// For each field after the step, by how much it changes when every field s before the step changes by
/// scale(s).
State64 acrobot_conditioning(const State64& start, double torque) {
  State64 total{};
  for (std::size_t j = 0; j < 4; ++j) {
    State64 above = start, below = start;
    const double h = 1e-6 * scale(start[j]);
    above[j] += h;
    below[j] -= h;
    const State64 high = acrobot_step(above, torque), low = acrobot_step(below, torque);
    for (std::size_t f = 0; f < 4; ++f) total[f] += std::fabs(high[f] - low[f]) / 2e-6;
  }
  return total;
}

/// A recorded double that has to be rounded to float first is half an ulp off, with much the same
/// consequences as the step's own error: tolerances are this much wider.
constexpr double kRounded = 3.0;

/// What a test knows of an environment beyond its rules: tolerances of one step from the same float state,
/// which field an observed component follows from (an angle's error passes on to its sine and cosine), how
/// far a next state is from the border between going on and ending, and the band around that border in which
/// either is right.
template <class E>
struct Stated;

template <>
struct Stated<CartPole> {
  static constexpr std::size_t observed_field[] = {0, 1, 2, 3};
  static constexpr int free_steps = 50;  // the pole falls with e^(4 t): a step multiplies an error by 1.08
  static constexpr double growth = 1.1, free_tolerance = 4.0;
  static State64 tolerance(const State64& s, int, const State64& next, bool) {
    return {0.51 * scale(next[0]), 1.5 * scale(s[1], next[1]), 0.51 * scale(next[2]),
            1.5 * scale(s[3], next[3])};
  }
  static double reward_tolerance(const State64&, double, bool) { return 0.0; }
  static double distance(const State64& next) {
    return std::min(std::fabs(std::fabs(next[0]) - 2.4), std::fabs(std::fabs(next[2]) - 12.0 * kPi / 180.0));
  }
  static constexpr double band = 4.0;
};

template <>
struct Stated<MountainCar> {
  static constexpr std::size_t observed_field[] = {0, 1};
  static constexpr int free_steps = 200;
  static constexpr double growth = 1.02, free_tolerance = 8.0;
  static State64 tolerance(const State64&, int, const State64&, bool) { return {0.6, 0.06, 0.0, 0.0}; }
  static double reward_tolerance(const State64&, double, bool) { return 0.0; }
  static double distance(const State64& next) {
    return std::min(std::fabs(next[0] - 0.5), next[0] >= 0.49 ? std::fabs(next[1]) : 1.0);
  }
  static constexpr double band = 1.0;
};

template <>
struct Stated<Acrobot> {
  static constexpr std::size_t observed_field[] = {0, 0, 1, 1, 2, 3};
  static constexpr int free_steps = 60;
  static constexpr double growth = 1.1, free_tolerance = 16.0;
  static State64 tolerance(const State64& s, int action, const State64& next, bool) {
    State64 t = acrobot_conditioning(s, action - 1);
    for (std::size_t f = 0; f < 4; ++f) t[f] = 6.0 * (t[f] + scale(s[f], next[f]));
    return t;
  }
  static double reward_tolerance(const State64&, double, bool) { return 0.0; }
  static double distance(const State64& next) {
    return std::fabs(-std::cos(next[0]) - std::cos(next[0] + next[1]) - 1.0);
  }
  static constexpr double band = 200.0;
};

template <>
struct Stated<Pendulum> {
  static constexpr std::size_t observed_field[] = {0, 0, 1};
  static constexpr int free_steps = 40;  // it falls with e^(3.9 t): a step multiplies an error by up to 1.22
  static constexpr double growth = 1.22, free_tolerance = 4.0;
  static State64 tolerance(const State64& s, int, const State64& next, bool rounded) {
    // The angle counts turns, so half an ulp of it may be more than all else: dt * 15 / 2 of it.
    const double inherited = rounded ? 0.375 * scale(s[0]) : 0.0;
    return {0.6 * scale(next[0]), 1.1 * scale(s[1], next[1]) + inherited / kRounded, 0.0, 0.0};
  }
  static double reward_tolerance(const State64& s, double reward, bool rounded) {
    // d(theta^2) = 2 theta d(theta), with theta up to pi and half an ulp of the unwrapped angle; the same for
    // thetadot.
    return 1.5 * scale(reward) + (rounded ? kPi * scale(s[0]) + scale(s[1]) : 0.0);
  }
  static double distance(const State64&) { return 1.0; }
  static constexpr double band = 0.0;
};

template <class E>
constexpr std::size_t kFields = sizeof(typename E::State) / 4;

template <class E>
typename E::State to_state(const State64& from) {
  float values[kFields<E>];
  for (std::size_t f = 0; f < kFields<E>; ++f) values[f] = static_cast<float>(from[f]);
  typename E::State state;
  std::memcpy(&state, values, sizeof state);
  return state;
}

template <class E>
State64 to_double(const typename E::State& state) {
  float values[kFields<E>];
  std::memcpy(values, &state, sizeof state);
  State64 result{};
  for (std::size_t f = 0; f < kFields<E>; ++f) result[f] = static_cast<double>(values[f]);
  return result;
}

template <class E>
typename E::Config configuration(int num_torques) {
  typename E::Config config;
  if constexpr (requires { config.num_torques; }) config.num_torques = num_torques;
  return config;
}

/// |a - b|; for a wrapped angle, the shorter way round.
template <class E>
double difference(std::size_t field, double a, double b) {
  const double d = std::fabs(a - b);
  return std::is_same_v<E, Acrobot> && field < 2 ? std::min(d, std::fabs(d - 2.0 * kPi)) : d;
}

/// One step of E from `before`, judged against what the reference made of the same state. `rounded`: that
/// state is no float, so E starts from a rounded one. Returns whether the end lay in the band, where it may
/// be either.
template <class E>
bool judge_step(const typename E::Config& config, const State64& before, int action, const State64& next,
                double reward, bool terminated, bool rounded) {
  const double wider = rounded ? kRounded : 1.0;
  Draws draws(0, 0u, 0u, kNoise);
  auto state = to_state<E>(before);
  const Step step = E::step(config, state, {action}, draws);
  const State64 got = to_double<E>(state);
  const State64 tolerance = Stated<E>::tolerance(before, action, next, rounded);
  for (std::size_t f = 0; f < kFields<E>; ++f) {
    EXPECT_LE(difference<E>(f, got[f], next[f]), wider * tolerance[f] * kEpsilon) << E::id << " field " << f;
  }
  const auto observed = E::observe(config, state);
  const auto expected = golden::observation(E::id, next);
  for (std::size_t c = 0; c < expected.size(); ++c) {
    const std::size_t field = Stated<E>::observed_field[c];
    EXPECT_LE(std::fabs(observed.values[c] - expected[c]), (wider * tolerance[field] + 1.0) * kEpsilon)
        << E::id << " observation " << c;
  }
  const bool in_band = Stated<E>::distance(next) <= wider * Stated<E>::band * kEpsilon;
  if (!in_band) {
    EXPECT_EQ(step.terminated, terminated) << E::id;
    EXPECT_LE(std::fabs(static_cast<double>(step.reward) - reward),
              Stated<E>::reward_tolerance(before, reward, rounded) * kEpsilon);
  }
  return in_band;
}

template <class E>
class Golden : public testing::Test {};
using Classic = testing::Types<CartPole, MountainCar, Acrobot, Pendulum>;
TYPED_TEST_SUITE(Golden, Classic);

TYPED_TEST(Golden, OneStepFromEachOfAHundredThousandStates) {
  int in_band = 0;
  std::size_t index = 0;
  for (const auto& t : golden::transitions(kFolder, TypeParam::id)) {
    State64 before{};
    std::copy(t.state.begin(), t.state.end(), before.begin());
    in_band += judge_step<TypeParam>(configuration<TypeParam>(t.num_torques), before, t.action, t.next_state,
                                     t.reward, t.terminated, false);
    ASSERT_FALSE(this->HasFailure()) << "at transition " << index;
    ++index;
  }
  this->RecordProperty("in_band", in_band);
  EXPECT_LE(in_band, 10);
}

TYPED_TEST(Golden, EveryStepOfFiftyEpisodesFromTheRecordedState) {
  const auto config = configuration<TypeParam>(5);
  int in_band = 0, number = 0;
  for (const auto& episode : golden::episodes(kFolder, TypeParam::id)) {
    const std::size_t steps = episode.actions.size();
    for (std::size_t i = 0; i < steps; ++i) {
      in_band += judge_step<TypeParam>(config, episode.states[i], episode.actions[i], episode.states[i + 1],
                                       episode.rewards[i], episode.terminated && i + 1 == steps, true);
      ASSERT_FALSE(this->HasFailure()) << "episode " << number << " step " << i;
    }
    // The time limit cuts an episode at exactly this step.
    EXPECT_EQ(episode.truncated, static_cast<int>(steps) == config.max_episode_steps);
    ++number;
  }
  EXPECT_LE(in_band, 10);
}

TYPED_TEST(Golden, RunsFreeFromTheRecordedStart) {
  const auto config = configuration<TypeParam>(5);
  double worst = 0.0;
  for (const auto& episode : golden::episodes(kFolder, TypeParam::id)) {
    auto state = to_state<TypeParam>(episode.states[0]);
    double tolerance = Stated<TypeParam>::free_tolerance * kEpsilon;
    const std::size_t steps = std::min<std::size_t>(episode.actions.size(), Stated<TypeParam>::free_steps);
    for (std::size_t i = 0; i < steps; ++i) {
      Draws draws(0, 0u, 0u, kNoise);
      TypeParam::step(config, state, {episode.actions[i]}, draws);
      tolerance *= Stated<TypeParam>::growth;
      const State64 got = to_double<TypeParam>(state);
      for (std::size_t f = 0; f < kFields<TypeParam>; ++f) {
        const double error = difference<TypeParam>(f, got[f], episode.states[i + 1][f]);
        worst = std::max(worst, error / (tolerance * scale(episode.states[i + 1][f])));
        ASSERT_LE(error, tolerance * scale(episode.states[i + 1][f]))
            << TypeParam::id << " field " << f << " step " << i;
      }
    }
  }
  this->RecordProperty("worst", std::to_string(worst));
}

/// A rule written for the vector machine has the scalar one's bits in every lane.
TYPED_TEST(Golden, VectorLanesHaveTheScalarBits) {
  using Wide = typename TypeParam::template On<Vector>;
  constexpr std::size_t width = Vector::width, fields = kFields<TypeParam>;
  const auto all = golden::transitions(kFolder, TypeParam::id);
  const auto config = configuration<TypeParam>(5);
  for (std::size_t first = 0; first + width <= all.size(); first += width) {
    float before[fields][width], after[fields][width], rewards[width];
    std::int32_t actions[width];
    for (std::size_t l = 0; l < width; ++l) {
      for (std::size_t f = 0; f < fields; ++f) before[f][l] = all[first + l].state[f];
      actions[l] = all[first + l].action;
    }
    RealLanes lanes[fields];
    for (std::size_t f = 0; f < fields; ++f) lanes[f] = RealLanes::load(before[f]);
    typename Wide::State wide;
    static_assert(sizeof wide == sizeof lanes);
    std::memcpy(&wide, lanes, sizeof wide);
    DrawsOf<Vector> no_draws(0, WordLanes(0u), WordLanes(0u), kNoise);
    const auto step = Wide::step(config, wide, {IntegerLanes::load(actions)}, no_draws);
    std::memcpy(lanes, &wide, sizeof wide);
    for (std::size_t f = 0; f < fields; ++f) lanes[f].store(after[f]);
    step.reward.store(rewards);
    std::int32_t ends[width];
    select(step.terminated, IntegerLanes(1), IntegerLanes(0)).store(ends);
    for (std::size_t l = 0; l < width; ++l) {
      auto state = typename TypeParam::State{};
      std::memcpy(&state, all[first + l].state.data(), sizeof state);
      Draws draws(0, 0u, 0u, kNoise);
      const Step single = TypeParam::step(config, state, {actions[l]}, draws);
      float expected[fields];
      std::memcpy(expected, &state, sizeof state);
      for (std::size_t f = 0; f < fields; ++f) {
        ASSERT_EQ(as_word(after[f][l]), as_word(expected[f]))
            << TypeParam::id << " " << first + l << " field " << f;
      }
      ASSERT_EQ(as_word(rewards[l]), as_word(single.reward));
      ASSERT_EQ(ends[l] != 0, single.terminated);
    }
  }
}

/// The tolerance of Acrobot leans on a model of its own: it has to be the reference's.
TEST(GoldenAcrobot, TheConditioningsModelIsTheReference) {
  for (const auto& t : golden::transitions(kFolder, "Acrobot-v1")) {
    State64 start{};
    std::copy(t.state.begin(), t.state.end(), start.begin());
    const State64 next = acrobot_step(start, t.action - 1);
    for (std::size_t f = 0; f < 4; ++f) {
      const double limit = f == 2 ? 4.0 * kPi : 9.0 * kPi;
      const double model = f < 2 ? std::remainder(next[f], 2.0 * kPi) : std::clamp(next[f], -limit, limit);
      ASSERT_NEAR(model, t.next_state[f], 1e-8) << "field " << f;
    }
  }
}

/// Does an episode end by a step that leaves the cart and the pole exactly where they are?
bool ends_at(float x, float theta) {
  CartPole::State state{x, 0.0f, theta, 0.0f};
  Draws draws(0, 0u, 0u, kNoise);
  return CartPole::step({}, state, {0}, draws).terminated;
}

/// Too narrow for random states: every float near the thresholds, but the one that is the threshold itself.
TEST(GoldenCartPole, EndsBeyondTheThresholdsToTheFloat) {
  const double angle = 12.0 * 2.0 * kPi / 360.0;
  for (int step = -50; step <= 50; ++step) {
    if (step == 0) continue;
    const float x = static_cast<float>(2.4) + static_cast<float>(step) * 0x1p-22f;
    const float theta = static_cast<float>(angle) + static_cast<float>(step) * 0x1p-26f;
    for (const float sign : {1.0f, -1.0f}) {
      EXPECT_EQ(ends_at(sign * x, 0.0f), static_cast<double>(x) > 2.4) << step;
      EXPECT_EQ(ends_at(0.0f, sign * theta), static_cast<double>(theta) > angle) << step;
    }
  }
}

TEST(GoldenPendulum, TorquesAreAnEvenGrid) {
  for (const int count : {2, 3, 5, 9, 64}) {
    const auto config = configuration<Pendulum>(count);
    ASSERT_EQ(Pendulum::num_actions(config), count);
    for (int index = 0; index < count; ++index) {
      Pendulum::State state{0.0f, 0.0f};
      Draws draws(0, 0u, 0u, kNoise);
      Pendulum::step(config, state, {index}, draws);
      // At rest upright, velocity after one step is 3 u dt.
      EXPECT_NEAR(state.thetadot, 0.15 * (-2.0 + 4.0 * index / (count - 1)), 0.75 * kEpsilon)
          << index << " of " << count;
    }
  }
}

}  // namespace
}  // namespace millrace
