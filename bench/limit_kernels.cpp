// The limits of step and matrix benchmarks; compiled for each instruction set. See limit_kernels.hpp.
//
// The CartPole loop is written against vector registers by hand: constants folded, no configuration, no statistics, no
// check for non-finite values, nothing between the state and the registers.
#include "bench/limit_kernels.hpp"

#include "envs/lanes.hpp"
#include "envs/philox.hpp"
#include "kernels/matrix.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {
namespace {

void cartpole(const bench::LimitState& s, std::uint64_t key, int first, int steps) {
  constexpr int w = native::kWidth;
  for (int lane = first; lane < first + kGroup; lane += w) {
    RealLanes x = RealLanes::load(s.state + lane);
    RealLanes x_dot = RealLanes::load(s.state + s.stride + lane);
    RealLanes theta = RealLanes::load(s.state + 2 * s.stride + lane);
    RealLanes theta_dot = RealLanes::load(s.state + 3 * s.stride + lane);
    WordLanes count = WordLanes::load(s.step_count + lane);
    IntegerLanes length = IntegerLanes::load(s.length + lane);
    alignas(64) std::uint32_t index[w];
    for (int l = 0; l < w; ++l) index[l] = static_cast<std::uint32_t>(lane + l);
    const WordLanes instance = WordLanes::load(index);
    for (int k = 0; k < steps; ++k) {
      const auto draw = philox4x32<WordLanes>(instance, count, WordLanes(2u), WordLanes(0u), key);
      const RealLanes force = select(as_integer(draw.word1) < IntegerLanes(0), 10.0f, -10.0f);
      const auto [sine, cosine] = sincos(theta);
      const RealLanes push =
          fma(theta_dot * theta_dot * 0.05f, sine, force) * (1.0f / 1.1f);
      const RealLanes inertia = fma(cosine * (-0.1f / 1.1f), cosine, RealLanes(4.0f / 3.0f)) * 0.5f;
      const RealLanes theta_acc = fma(RealLanes(9.8f), sine, -(cosine * push)) / inertia;
      const RealLanes x_acc = fma(theta_acc * (-0.05f / 1.1f), cosine, push);
      x = fma(RealLanes(0.02f), x_dot, x);
      x_dot = fma(RealLanes(0.02f), x_acc, x_dot);
      theta = fma(RealLanes(0.02f), theta_dot, theta);
      theta_dot = fma(RealLanes(0.02f), theta_acc, theta_dot);
      count = count + 1u;
      length = length + 1;
      const MaskLanes done = (absolute(x) > RealLanes(2.4f)) | (absolute(theta) > RealLanes(0.20943951f)) |
                             (length == IntegerLanes(500));
      if (any(done)) {
        const auto fresh = philox4x32<WordLanes>(instance, count, WordLanes(0u), WordLanes(0u), key);
        x = select(done, unit_real(fresh.word0) * 0.1f - 0.05f, x);
        x_dot = select(done, unit_real(fresh.word1) * 0.1f - 0.05f, x_dot);
        theta = select(done, unit_real(fresh.word2) * 0.1f - 0.05f, theta);
        theta_dot = select(done, unit_real(fresh.word3) * 0.1f - 0.05f, theta_dot);
        length = select(done, IntegerLanes(0), length);
      }
      x.store(s.observation + lane);
      x_dot.store(s.observation + s.stride + lane);
      theta.store(s.observation + 2 * s.stride + lane);
      theta_dot.store(s.observation + 3 * s.stride + lane);
    }
    x.store(s.state + lane);
    x_dot.store(s.state + s.stride + lane);
    theta.store(s.state + 2 * s.stride + lane);
    theta_dot.store(s.state + 3 * s.stride + lane);
    count.store(s.step_count + lane);
    length.store(s.length + lane);
  }
}

double multiply_adds(int rounds, float* sink) {
  constexpr int kChains = 12;  // two units, four cycles of latency, and room to spare
  RealLanes chain[kChains];
  for (int c = 0; c < kChains; ++c) chain[c] = RealLanes(1.0f + static_cast<float>(c));
  const RealLanes a(sink[0]), b(sink[1]);
  for (int r = 0; r < rounds; ++r) {
    for (int c = 0; c < kChains; ++c) chain[c] = multiply_add(chain[c], a, b);
  }
  for (int c = 1; c < kChains; ++c) chain[0] += chain[c];
  chain[0].store(sink + 16);
  return 2.0 * kChains * native::kWidth * static_cast<double>(rounds);
}

}  // namespace

extern const bench::LimitKernels kLimitKernels;
const bench::LimitKernels kLimitKernels = {&cartpole, &multiply_adds};

}  // namespace MILLRACE_ISA
}  // namespace millrace
