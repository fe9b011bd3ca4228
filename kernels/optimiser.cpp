// The scalar numbers of an optimiser's update; see learner_kernels.hpp.
#include <cmath>

#include "kernels/learner_kernels.hpp"

namespace millrace {

OptimiserStep make_optimiser_step(Optimiser kind, std::int64_t update, double learning_rate, double beta1,
                                  double beta2, double epsilon, double max_norm, double average_decay) {
  const double t = static_cast<double>(update) + 1.0;
  OptimiserStep step{};
  step.kind = kind;
  step.learning_rate = static_cast<float>(learning_rate);
  step.beta1 = static_cast<float>(beta1);
  step.beta2 = static_cast<float>(beta2);
  step.epsilon = static_cast<float>(epsilon);
  step.max_norm = static_cast<float>(max_norm);
  step.average_decay = static_cast<float>(average_decay);
  if (kind == Optimiser::kSgd) return step;
  const double beta2_power = std::pow(beta2, t);
  step.mean_scale = static_cast<float>(1.0 / (1.0 - std::pow(beta1, t)));
  step.square_scale = static_cast<float>(1.0 / (1.0 - beta2_power));
  if (kind == Optimiser::kRadam) {
    const double rho_limit = 2.0 / (1.0 - beta2) - 1.0;
    const double rho = rho_limit - 2.0 * t * beta2_power / (1.0 - beta2_power);
    step.rectification =
        rho > 5.0 ? static_cast<float>(std::sqrt((rho - 4.0) * (rho - 2.0) * rho_limit /
                                                 ((rho_limit - 4.0) * (rho_limit - 2.0) * rho)))
                  : 0.0f;
  }
  return step;
}

}  // namespace millrace
