// One parameter's update, on any machine; see make_optimiser_step() for the numbers.
//
// Thread safety: pure functions.
#pragma once

#include "envs/lanes.hpp"
#include "kernels/learner_kernels.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

/// A parameter with what its optimiser remembers: first and second moment.
template <class Real>
struct Parameter {
  Real weight, mean, square;
};

template <class Real>
MILLRACE_FN Parameter<Real> updated(const OptimiserStep& step, Parameter<Real> p, Real gradient) {
  Real change;
  if (step.kind == Optimiser::kSgd) {
    p.mean = p.mean * step.beta1 + gradient;
    change = p.mean;
  } else {
    p.mean = p.mean * step.beta1 + gradient * (1.0f - step.beta1);
    p.square = p.square * step.beta2 + gradient * gradient * (1.0f - step.beta2);
    change = p.mean * step.mean_scale;
    const bool adaptive = step.kind == Optimiser::kAdam || step.rectification > 0.0f;
    if (adaptive) change = change / (square_root(p.square * step.square_scale) + step.epsilon);
    if (step.kind == Optimiser::kRadam && adaptive) change = change * step.rectification;
  }
  p.weight = p.weight - change * step.learning_rate;
  return p;
}

/// The factor that brings the gradient's norm down to step.max_norm, from the sum of its squares.
MILLRACE_FN float clip_factor(const OptimiserStep& step, double squared_norm) {
  if (!(step.max_norm > 0.0f)) return 1.0f;
  const float norm = square_root(static_cast<float>(squared_norm));
  return norm > step.max_norm ? step.max_norm / norm : 1.0f;
}

/// The running average of a parameter after an update.
template <class Real>
MILLRACE_FN Real averaged(const OptimiserStep& step, Real average, Real weight) {
  return average + (weight - average) * (1.0f - step.average_decay);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace
