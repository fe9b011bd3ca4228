// Parameter fields for the configuration tests: those of the real environments, and an environment "Mixed-v0"
// with a field of each type.
#pragma once

#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "envs/acrobot.hpp"
#include "envs/cartpole.hpp"
#include "envs/mountaincar.hpp"
#include "envs/pendulum.hpp"
#include "runtime/config_reader.hpp"
#include "runtime/error.hpp"

namespace millrace::testing {

template <class E>
std::vector<ParameterField> fields_of() {
  const typename E::Config defaults{};
  std::vector<ParameterField> all;
  std::apply(
      [&](const auto&... field) {
        const auto add = [&](const auto& f) {
          using Value = std::remove_cvref_t<decltype(defaults.*f.member)>;
          const ParameterType type =
              std::is_same_v<Value, float> ? ParameterType::kFloat : ParameterType::kInt;
          all.push_back({f.name, type, static_cast<double>(defaults.*f.member), f.low, f.high, f.doc});
        };
        (add(field), ...);
      },
      E::config_fields);
  return all;
}

inline std::vector<ParameterField> fields_by_id(const std::string& id) {
  if (id == CartPole::id) return fields_of<CartPole>();
  if (id == MountainCar::id) return fields_of<MountainCar>();
  if (id == Acrobot::id) return fields_of<Acrobot>();
  if (id == Pendulum::id) return fields_of<Pendulum>();
  if (id == "Mixed-v0")
    return {{"length", ParameterType::kFloat, 0.1f, 0.1, 0.7, "m"},
            {"walls", ParameterType::kInt, 3, 0, 10, "how many"},
            {"slippery", ParameterType::kBool, 1, 0, 1, "ice"},
            {"offset", ParameterType::kFloat, 0, -INFINITY, INFINITY, "anything"}};
  throw UserError("there is no environment \"" + id + "\"; the nearest is CartPole-v1.");
}

}  // namespace millrace::testing
