// lambda-returns, one instance (or vector of them) at a time, backwards over a chunk.
//
//   G_t = r_t + gamma * [ (1 - lambda) * V(s_{t+1}) + lambda * G_{t+1} ],   V(s) = max_a Q(s, a)
//
// cut where the episode ended: r_t alone if terminated; r_t + gamma * V(final observation) if truncated. Source:
// Gallici et al., "Simplifying deep temporal difference learning", arXiv 2407.04811, eq. for Q(lambda).
//
// The original code (compatibility "purejaxql") differs twice: truncation counts as termination, and V at t = T-2 is
// the one of s_T (0 if the last step ended an episode) instead of s_{T-1}.
//
// Thread safety: pure functions.
#pragma once

#include "envs/lanes.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

struct ReturnRules {
  float gamma, lambda;
  bool truncation_terminates;
  bool late_index;
};

/// The recursion's state between steps.
template <class Real>
struct LambdaReturn {
  Real next_return;  ///< G_{t+1}
  Real next_value;   ///< V(s_{t+1}) as the recursion uses it

  /// At the end of a chunk of `T` steps: both are V(s_T).
  MILLRACE_FN static LambdaReturn start(Real last_value) { return {last_value, last_value}; }

  /// Takes step t and returns G_t. `value` is V(s_t), `final_value` V of the final observation where truncated.
  template <class Mask>
  MILLRACE_FN Real take(const ReturnRules& rules, Real reward, Mask terminated, Mask truncated, Mask quarantined,
                        Real value, Real final_value, bool is_last_step) {
    const Real mixed = fma(next_return - next_value, Real(rules.lambda), next_value);
    const Mask cut = rules.truncation_terminates ? static_cast<Mask>(terminated | truncated) : terminated;
    Real bootstrap = select(truncated, final_value, mixed);
    bootstrap = select(cut, Real(0.0f), bootstrap);
    const Real target = fma(bootstrap, Real(rules.gamma), reward);
    // A quarantined transition is worth what its state was thought to be worth: nothing is learnt across it.
    next_return = select(quarantined, value, target);
    // The late index: V(s_T) once more, or 0 where the last step ended an episode.
    next_value = rules.late_index && is_last_step
                     ? select(quarantined, value, select(cut, Real(0.0f), next_value))
                     : value;
    return next_return;
  }
};

}  // namespace MILLRACE_ISA
}  // namespace millrace
