// Gradients of one update against a plain implementation in double: its loss, differenced, and its own
// backward pass. The trajectory is made up; the network is exactly the one under test, with its parameters
// widened.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <ostream>
#include <random>
#include <set>
#include <vector>

#include "kernels/learner_kernels.hpp"
#include "kernels/shuffle.hpp"
#include "tests/environments/registration.hpp"

namespace millrace {
namespace {

using testing_environments::machine_isas;

struct Sample {
  std::vector<double> input;
  int action;
  double target;
  bool dropped;
};

/// The network in double. All of it is here: nothing of kernels/ but the layout is used.
class Plain {
 public:
  Plain(const Network& network, const std::vector<double>& parameters) : net_(network), p_(parameters) {}

  [[nodiscard]] std::vector<double> q(const std::vector<double>& input) const {
    std::vector<double> x = input;
    for (int l = 0; l < net_.num_layers; ++l) x = layer(net_.layers[l], x);
    return x;
  }
  /// 1/2 * sum over the samples that count of (Q(s, a) - G)^2, over the number of all of them.
  [[nodiscard]] double loss(const std::vector<Sample>& samples) const {
    double sum = 0.0;
    for (const Sample& s : samples) {
      if (s.dropped) continue;
      const double error = q(s.input)[static_cast<std::size_t>(s.action)] - s.target;
      sum += 0.5 * error * error;
    }
    return sum / static_cast<double>(samples.size());
  }

 private:
  [[nodiscard]] std::vector<double> layer(const DenseLayer& d, const std::vector<double>& x) const {
    const auto outputs = static_cast<std::size_t>(d.outputs);
    std::vector<double> y(outputs);
    for (std::size_t o = 0; o < outputs; ++o) {
      y[o] = p_[d.bias + o];
      for (std::size_t i = 0; i < x.size(); ++i) y[o] += p_[d.weight + i * outputs + o] * x[i];
    }
    if (d.normalised) {
      double mean = 0.0, variance = 0.0;
      for (const double v : y) mean += v / static_cast<double>(outputs);
      for (const double v : y) variance += (v - mean) * (v - mean) / static_cast<double>(outputs);
      for (std::size_t o = 0; o < outputs; ++o) {
        y[o] = (y[o] - mean) / std::sqrt(variance + 1e-6) * p_[d.gain + o] + p_[d.shift + o];
      }
    }
    if (d.activated) {
      for (double& v : y) v = std::max(0.0, v);
    }
    return y;
  }
  const Network& net_;
  const std::vector<double>& p_;
};

struct Shape {
  const char* name;
  std::vector<int> hidden;
  bool layer_norm;
  int inputs, outputs, instances, steps, agents, shards, minibatches;
  bool image;
  friend std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.name; }
};

std::vector<Shape> shapes() {
  return {{"tiny", {5}, false, 3, 2, 7, 5, 1, 1, 1, false},
          {"tiny_norm", {5}, true, 4, 2, 7, 5, 1, 2, 1, false},
          {"odd", {33, 17}, false, 4, 3, 13, 3, 1, 1, 2, false},
          {"odd_norm", {33, 17}, true, 4, 3, 19, 7, 1, 8, 3, false},
          {"wide_output", {33, 17}, true, 6, 9, 13, 5, 1, 2, 2, false},
          {"narrow_limit", {16}, true, 2, 8, 17, 3, 1, 2, 1, false},
          {"usual", {64, 64}, true, 4, 2, 100, 9, 1, 8, 2, false},
          {"usual_plain", {64, 64}, false, 4, 9, 100, 3, 1, 8, 1, false},
          {"deep", {9, 8, 7, 6}, true, 3, 3, 21, 3, 1, 2, 1, false},
          {"agents", {33, 17}, true, 5, 3, 11, 4, 2, 2, 3, false},
          {"image", {17}, true, 50, 3, 15, 5, 1, 2, 2, true},
          {"image_agents", {16, 5}, false, 70, 4, 9, 3, 2, 8, 1, true},
          {"more_shards_than_instances", {7}, true, 3, 2, 5, 3, 1, 8, 2, false}};
}

/// A made-up problem and what the learner makes of it.
class Problem {
 public:
  explicit Problem(const Shape& shape)
      : shape_(shape),
        network_(make_network(shape.inputs, shape.hidden, shape.outputs, shape.layer_norm)),
        layout_(shape.instances, shape.steps, shape.agents,
                shape.image ? (shape.inputs + 31) / 32 : shape.inputs),
        parameters_(network_.parameters),
        trajectory_(layout_.words(), 0x7FC00000u) {
    initialise_parameters(network_, Initialisation::kHeNormal, 5, parameters_);
    std::normal_distribution<float> normal(0.0f, 1.0f);
    // Every parameter at a generic place, but the padding between tensors.
    for (const ParameterTensor& tensor : parameter_tensors(network_)) {
      std::size_t count = 1;
      for (const auto n : tensor.shape) count *= static_cast<std::size_t>(n);
      for (std::size_t i = 0; i < count; ++i) {
        parameters_[tensor.offset + i] += 0.2f * normal(random_);
        used_.push_back(tensor.offset + i);
      }
    }
    fill_trajectory();
  }

  /// Sum over shards of the gradient of one minibatch.
  std::vector<double> gradient(Isa isa, std::uint32_t epoch, int minibatch) {
    const LearnerKernels& learner = *learner_kernels(isa);
    const auto shards = static_cast<std::size_t>(shape_.shards);
    gradients_.assign(shards * network_.parameters, std::nanf(""));
    sums_.assign(shards, ShardSums{-1.0, -1.0, -1});
    struct alignas(64) Line {
      unsigned char bytes[64];
    };
    std::vector<Line> scratch(learner.scratch_bytes(network_) / 64 + 1);
    std::memset(scratch.data(), 0xFF, scratch.size() * 64);
    GradientArguments args{};
    args.network = &network_;
    args.parameters = parameters_.data();
    args.trajectory_layout = layout_;
    args.trajectory = trajectory_.data();
    args.is_image = shape_.image;
    args.instances = shape_.instances;
    args.num_shards = shape_.shards;
    args.num_minibatches = shape_.minibatches;
    args.key = 77;
    args.iteration = 3;
    args.epoch = epoch;
    args.minibatch = minibatch;
    args.gradients = gradients_.data();
    args.sums = sums_.data();
    for (int shard = shape_.shards - 1; shard >= 0; --shard) learner.gradient(args, shard, scratch.data());
    std::vector<double> sum(network_.parameters);
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      sum[i % network_.parameters] += static_cast<double>(gradients_[i]);
    }
    return sum;
  }

  /// The samples of one minibatch: of each shard's instances, the part of the shuffled order.
  [[nodiscard]] std::vector<Sample> minibatch(std::uint32_t epoch, int index) const {
    std::vector<Sample> samples;
    for (int shard = 0; shard < shape_.shards; ++shard) {
      const int first = shard * shape_.instances / shape_.shards;
      const int own = (shard + 1) * shape_.instances / shape_.shards - first;
      const int count = own * shape_.steps * shape_.agents;
      if (count == 0) continue;
      const ShuffleKey shuffle =
          make_shuffle(77, static_cast<std::uint32_t>(shard), 3, epoch, static_cast<std::uint32_t>(count));
      for (int k = index * count / shape_.minibatches; k < (index + 1) * count / shape_.minibatches; ++k) {
        const int place = static_cast<int>(shuffled(shuffle, static_cast<std::uint32_t>(k)));
        const int row = place / own;
        samples.push_back(samples_[static_cast<std::size_t>(
            (row / shape_.agents * shape_.agents + row % shape_.agents) * shape_.instances + first +
            place % own)]);
      }
    }
    return samples;
  }

  [[nodiscard]] std::vector<double> wide_parameters() const {
    return {parameters_.begin(), parameters_.end()};
  }
  [[nodiscard]] const Network& network() const { return network_; }
  [[nodiscard]] const std::vector<std::size_t>& used() const { return used_; }
  [[nodiscard]] const std::vector<ShardSums>& sums() const { return sums_; }
  [[nodiscard]] const std::vector<float>& gradients() const { return gradients_; }
  [[nodiscard]] std::size_t num_samples() const { return samples_.size(); }
  [[nodiscard]] std::size_t num_dropped() const {
    return static_cast<std::size_t>(
        std::count_if(samples_.begin(), samples_.end(), [](auto& s) { return s.dropped; }));
  }
  [[nodiscard]] std::vector<float>& parameters() { return parameters_; }

 private:
  void fill_trajectory() {
    std::normal_distribution<float> normal(0.0f, 1.0f);
    for (int t = 0; t < shape_.steps; ++t) {
      std::vector<bool> dropped(static_cast<std::size_t>(shape_.instances));
      for (int i = 0; i < shape_.instances; ++i) {
        dropped[static_cast<std::size_t>(i)] = random_() % 9 == 0;
        // Ends do not matter to the learner; quarantined steps do.
        trajectory_[layout_.flags(t) + static_cast<std::size_t>(i)] =
            dropped[static_cast<std::size_t>(i)] ? kQuarantined | static_cast<std::uint32_t>(random_() % 4)
                                                 : static_cast<std::uint32_t>(random_() % 4);
      }
      for (int a = 0; a < shape_.agents; ++a) {
        for (int i = 0; i < shape_.instances; ++i) {
          const auto at = static_cast<std::size_t>(i);
          Sample s;
          s.dropped = dropped[at];
          s.action = static_cast<int>(random_() % static_cast<std::uint32_t>(shape_.outputs));
          const float target = s.dropped ? std::nanf("") : 2.0f * normal(random_);
          s.target = static_cast<double>(target);
          for (int f = 0; f < shape_.inputs; ++f) s.input.push_back(put_input(t, a, i, f, normal(random_)));
          std::memcpy(&trajectory_[layout_.target(t, a) + at], &target, 4);
          trajectory_[layout_.action(t, a) + at] = static_cast<std::uint32_t>(s.action);
          samples_.push_back(std::move(s));
        }
      }
    }
  }
  double put_input(int t, int a, int i, int f, float value) {
    const std::size_t base = layout_.observation(t, a) + static_cast<std::size_t>(i);
    if (!shape_.image) {
      std::memcpy(&trajectory_[base + static_cast<std::size_t>(f) * static_cast<std::size_t>(layout_.stride)],
                  &value, 4);
      return static_cast<double>(value);
    }
    std::uint32_t& word =
        trajectory_[base + static_cast<std::size_t>(f / 32) * static_cast<std::size_t>(layout_.stride)];
    if (f % 32 == 0) word = 0xDEADBEEF;  // bits beyond the image may hold anything
    const std::uint32_t bit = 1u << (f % 32);
    word = value > 0.3f ? word | bit : word & ~bit;
    return value > 0.3f ? 1.0 : 0.0;
  }

  Shape shape_;
  Network network_;
  TrajectoryLayout layout_;
  std::vector<float> parameters_;
  std::vector<std::uint32_t> trajectory_;
  std::mt19937 random_{11};
  std::vector<Sample> samples_;  // [step][agent][instance]
  std::vector<std::size_t> used_;
  std::vector<float> gradients_;
  std::vector<ShardSums> sums_;
};

class Gradient : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, Gradient, testing::ValuesIn(shapes()),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

/// A step that is too short for a ReLU to turn over somewhere would be lucky; where one does, the two
/// one-sided slopes differ, and the derivative lies between them.
TEST_P(Gradient, IsTheDerivativeOfTheLoss) {
  Problem problem(GetParam());
  std::mt19937 random(3);
  for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
    for (int m = 0; m < GetParam().minibatches; ++m) {
      const std::vector<Sample> samples = problem.minibatch(epoch, m);
      std::vector<double> p = problem.wide_parameters();
      const Plain plain(problem.network(), p);
      // All parameters of small networks, else some of them.
      std::vector<std::size_t> chosen = problem.used();
      std::shuffle(chosen.begin(), chosen.end(), random);
      chosen.resize(std::min<std::size_t>(chosen.size(), 150));
      const double here = plain.loss(samples);
      std::map<std::size_t, std::pair<double, double>> slopes;
      for (const std::size_t i : chosen) {
        const double h = 1e-6, centre = p[i];
        p[i] = centre + h;
        const double up = (plain.loss(samples) - here) / h;
        p[i] = centre - h;
        const double down = (here - plain.loss(samples)) / h;
        p[i] = centre;
        slopes[i] = {std::min(up, down), std::max(up, down)};
      }
      for (const Isa isa : machine_isas()) {
        const std::vector<double> g = problem.gradient(isa, epoch, m);
        double norm = 0.0;
        for (const std::size_t i : problem.used()) norm += g[i] * g[i];
        const double tolerance = 2e-5 * (1.0 + std::sqrt(norm));
        for (const auto& [i, slope] : slopes) {
          ASSERT_GE(g[i], slope.first - tolerance)
              << to_string(isa) << " parameter " << i << " minibatch " << m;
          ASSERT_LE(g[i], slope.second + tolerance)
              << to_string(isa) << " parameter " << i << " minibatch " << m;
        }
        double squared = 0.0, value = 0.0;
        std::int64_t counted = 0;
        for (const ShardSums& sums : problem.sums()) {
          squared += sums.squared_error;
          value += sums.value;
          counted += sums.samples;
        }
        EXPECT_NEAR(0.5 * squared / static_cast<double>(samples.size()), here, 1e-4 * (1.0 + here));
        double values = 0.0;
        std::int64_t expected = 0;
        for (const Sample& s : samples) {
          if (s.dropped) continue;
          ++expected;
          values += plain.q(s.input)[static_cast<std::size_t>(s.action)];
        }
        EXPECT_EQ(counted, expected);
        EXPECT_NEAR(value, values, 1e-4 * (1.0 + std::abs(values)));
      }
    }
  }
}

TEST_P(Gradient, PaddingStaysZero) {
  Problem problem(GetParam());
  const std::set<std::size_t> used(problem.used().begin(), problem.used().end());
  for (const Isa isa : machine_isas()) {
    problem.gradient(isa, 0, 0);
    // Shards' gradients start as NaN here: what is not written would show. Padding need not be written; the
    // cell clears it once.
    for (std::size_t i = 0; i < problem.gradients().size(); ++i) {
      const float g = problem.gradients()[i];
      if (used.contains(i % problem.network().parameters)) {
        ASSERT_TRUE(std::isfinite(g)) << to_string(isa) << " float " << i;
      } else {
        ASSERT_TRUE(std::isnan(g) || std::abs(g) < 1e-30f) << to_string(isa) << " padding " << i;
      }
    }
  }
}

TEST_P(Gradient, FusedInstructionSetsHaveTheSameBits) {
  Problem problem(GetParam());
  std::vector<std::vector<float>> results;
  for (const Isa isa : machine_isas()) {
    if (isa == Isa::kBaseline) continue;
    problem.gradient(isa, 1, GetParam().minibatches - 1);
    std::vector<float> used;
    for (int shard = 0; shard < GetParam().shards; ++shard) {
      for (const std::size_t i : problem.used()) {
        used.push_back(
            problem.gradients()[static_cast<std::size_t>(shard) * problem.network().parameters + i]);
      }
    }
    results.push_back(used);
  }
  for (std::size_t i = 1; i < results.size(); ++i) {
    ASSERT_EQ(0, std::memcmp(results[i].data(), results[0].data(), results[0].size() * sizeof(float)));
  }
}

/// Together with IsTheDerivativeOfTheLoss, which compares each minibatch's gradient with the samples that
/// minibatch() lists: over an epoch, the lists hold each sample once.
TEST_P(Gradient, OneEpochTakesEachSampleOnce) {
  Problem problem(GetParam());
  for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
    std::int64_t counted = 0;
    std::multiset<double> seen;
    for (int m = 0; m < GetParam().minibatches; ++m) {
      problem.gradient(best_isa(), epoch, m);
      for (const ShardSums& sums : problem.sums()) counted += sums.samples;
      for (const Sample& s : problem.minibatch(epoch, m)) {
        if (!s.dropped) seen.insert(s.target);
      }
    }
    EXPECT_EQ(counted, static_cast<std::int64_t>(problem.num_samples() - problem.num_dropped()));
    EXPECT_EQ(seen.size(), problem.num_samples() - problem.num_dropped());
    EXPECT_EQ(std::set<double>(seen.begin(), seen.end()).size(), seen.size())
        << "targets differ, so none came twice";
  }
}

}  // namespace
}  // namespace millrace
