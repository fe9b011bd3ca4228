// A cell on the CPU: its memory, and what is enqueued on the device's streams; see cell.hpp.
//
// Rollout and learner have a stream each, the learner's with the higher priority, and wait for one another through
// events. A block is a tile of instances or a shard of samples, so the result does not depend on who runs it.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>

#include "kernels/learner_kernels.hpp"
#include "runtime/cell.hpp"
#include "runtime/cpu_device.hpp"
#include "runtime/error.hpp"
#include "runtime/registry.hpp"

namespace millrace {
namespace {

constexpr int kTileGroups = 4;        // of a rollout block
constexpr int kEvaluationGroups = 2;  // of an evaluation block: fewer, so that 200 episodes occupy several workers
constexpr int kEndlessEvaluation = 100'000;
constexpr int kSmallNetworkChunks = 8;  // up to here, one block reduces and updates: a second launch costs more

Optimiser optimiser_of(const AlgoConfig& algo) {
  switch (algo.optimizer) {
    case AlgoConfig::Optimizer::kRadam:
      return Optimiser::kRadam;
    case AlgoConfig::Optimizer::kAdam:
      return Optimiser::kAdam;
    case AlgoConfig::Optimizer::kSgd:
      return Optimiser::kSgd;
  }
  return Optimiser::kRadam;
}

/// 2^32 * P(duration <= j + 1) for durations 1 .. hold_max with weight k^-exponent.
std::vector<std::uint32_t> hold_limits(int hold_max, double exponent) {
  std::vector<double> weights;
  double total = 0.0;
  for (int k = 1; k <= hold_max; ++k) {
    weights.push_back(std::pow(static_cast<double>(k), -exponent));
    total += weights.back();
  }
  std::vector<std::uint32_t> limits;
  double sum = 0.0;
  for (int k = 0; k + 1 < hold_max; ++k) {
    sum += weights[static_cast<std::size_t>(k)] / total;
    limits.push_back(static_cast<std::uint32_t>(std::min(sum * 0x1p32, 0x1p32 - 1.0)));
  }
  return limits;
}

class CpuCell final : public Cell {
 public:
  CpuCell(CpuDevice& device, const EnvironmentDescription& environment, const ExperimentConfig& config, Isa isa)
      : environment_(environment),
        config_(config),
        env_kernels_(kernels_for(environment, isa)),
        learner_(*learner_kernels(isa)),
        env_config_(make_environment_config(environment, config.env.params)),
        num_actions_(environment.rules.num_actions(env_config_.data())),
        network_(make_network(environment.observation_size, config.network.hidden, num_actions_,
                              config.network.layer_norm)),
        layout_(config.env.num_envs, environment.state_words, environment.num_agents),
        trajectory_layout_(config.env.num_envs, config.algo.num_steps, environment.num_agents,
                           environment.observation_words),
        hold_limits_(hold_limits(config.algo.hold_max, config.algo.hold_exponent)),
        instances_(device, layout_.words()),
        trajectory_(device, trajectory_layout_.words()),
        weights_(device, network_.parameters),
        mean_(device, network_.parameters),
        square_(device, network_.parameters),
        average_(device, config.algo.average_decay > 0.0 ? network_.parameters : 0),
        gradient_(device, network_.parameters),
        gradients_(device, network_.parameters * static_cast<std::size_t>(config.algo.shards)),
        squared_norms_(device, static_cast<std::size_t>(num_chunks(network_))),
        epsilon_(device, static_cast<std::size_t>(layout_.stride)),
        offending_(device, static_cast<std::size_t>(layout_.stride / 64 + 1) *
                               static_cast<std::size_t>(2 + environment.state_words)),
        updates_per_iteration_(config.algo.num_epochs * config.algo.num_minibatches),
        sums_(static_cast<std::size_t>(updates_per_iteration_) * static_cast<std::size_t>(config.algo.shards)),
        scratch_stride_(std::max(env_kernels_.rollout_scratch_bytes(network_), learner_.scratch_bytes(network_)) / 64 *
                            64 +
                        128),
        scratch_(device, scratch_stride_ * static_cast<std::size_t>(device.num_workers())),
        rollout_stream_(device.make_cpu_stream({.name = "rollout", .priority = 0})),
        learner_stream_(device.make_cpu_stream({.name = "learner", .priority = 1})),
        evaluation_stream_(device.make_cpu_stream({.name = "evaluation", .priority = -1})),
        rolled_out_(device.make_event()),
        learnt_(device.make_event()) {
    const auto clear = [](auto& buffer) { std::memset(buffer.get(), 0, buffer.size_bytes()); };
    clear(instances_);
    clear(trajectory_);
    clear(mean_);
    clear(square_);
    clear(gradient_);
    clear(gradients_);
    clear(offending_);
    clear(scratch_);
    initialise_parameters(network_,
                          config.network.init == NetworkConfig::Init::kHeNormal ? Initialisation::kHeNormal
                                                                                : Initialisation::kLecunNormal,
                          config.seed, weights_.view());
    if (!average_.empty()) std::memcpy(average_.get(), weights_.get(), weights_.size_bytes());
    StepArguments start{};
    start.config = env_config_.data();
    start.key = config.seed;
    start.layout = layout_;
    start.instances = instances_.get();
    env_kernels_.reset(start, 0, groups(), config.env.stagger);
  }

  void iterate(std::int64_t iteration, double epsilon) override {
    enqueue_rollout(epsilon);
    rollout_stream_->record(*rolled_out_);
    learner_stream_->wait(*rolled_out_);
    enqueue_learning(iteration);
    learner_stream_->record(*learnt_);
    rollout_stream_->wait(*learnt_);
  }

  void roll_out(double epsilon) override { enqueue_rollout(epsilon); }

  void synchronize() override {
    rollout_stream_->synchronize();
    learner_stream_->synchronize();
  }

  void cancel() override { cancelled_.store(true, std::memory_order_relaxed); }

  ChunkStatistics take_statistics() override;
  EvaluationResult evaluate(std::uint64_t key, std::uint64_t round, int episodes) override;
  std::optional<OffendingState> take_offending_state() override;
  void save(Checkpoint& checkpoint) const override;
  void load(const Checkpoint& checkpoint) override;

  [[nodiscard]] std::string digest() const override {
    XXH3_state_t* state = XXH3_createState();
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, weights_.get(), weights_.size_bytes());
    if (!average_.empty()) XXH3_128bits_update(state, average_.get(), average_.size_bytes());
    const XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, hash);
    std::string text;
    constexpr std::string_view kDigits = "0123456789abcdef";
    for (const unsigned char byte : canonical.digest) {
      text += kDigits[byte >> 4];
      text += kDigits[byte & 15u];
    }
    return text;
  }
  [[nodiscard]] std::int64_t updates() const override { return updates_; }

 private:
  [[nodiscard]] int groups() const { return layout_.stride / kGroup; }
  [[nodiscard]] std::byte* scratch(int worker) {
    return scratch_.get() + scratch_stride_ * static_cast<std::size_t>(worker);
  }
  [[nodiscard]] const float* evaluation_weights() const {
    return average_.empty() ? weights_.get() : average_.get();
  }
  void enqueue_rollout(double epsilon);
  void enqueue_learning(std::int64_t iteration);
  void enqueue_update(const ReduceArguments& reduce, const UpdateArguments& update);

  const EnvironmentDescription& environment_;
  const ExperimentConfig config_;
  const EnvironmentKernels& env_kernels_;
  const LearnerKernels& learner_;
  const std::vector<std::byte> env_config_;
  const int num_actions_;
  const Network network_;
  const InstanceLayout layout_;
  const TrajectoryLayout trajectory_layout_;
  const std::vector<std::uint32_t> hold_limits_;
  Buffer<std::uint32_t> instances_;
  Buffer<std::uint32_t> trajectory_;
  Buffer<float> weights_, mean_, square_, average_, gradient_, gradients_;
  Buffer<double> squared_norms_;
  Buffer<float> epsilon_;
  Buffer<std::uint32_t> offending_;  // a record for each rollout block: flag, instance, state
  const int updates_per_iteration_;
  std::vector<ShardSums> sums_;  // [update of the iteration][shard]
  const std::size_t scratch_stride_;
  Buffer<std::byte> scratch_;
  std::int64_t updates_ = 0;
  bool offence_taken_ = false;
  std::atomic<bool> cancelled_{false};
  RolloutArguments rollout_{};
  // Streams last: their destructors wait for work that uses all above.
  std::unique_ptr<CpuStream> rollout_stream_, learner_stream_, evaluation_stream_;
  std::unique_ptr<Event> rolled_out_, learnt_;
};

void CpuCell::enqueue_rollout(double epsilon) {
  const AlgoConfig& algo = config_.algo;
  // The last chunk is done before the next is enqueued (the trainer synchronises), so these may change now.
  const double last = std::max(1, config_.env.num_envs - 1);
  for (int i = 0; i < layout_.stride; ++i) {
    const double own = algo.epsilon_mode == AlgoConfig::EpsilonMode::kPerInstance
                           ? std::pow(epsilon, 1.0 + algo.epsilon_alpha * std::min(1.0, i / last))
                           : epsilon;
    epsilon_.get()[i] = static_cast<float>(own);
  }
  RolloutArguments args{};
  args.config = env_config_.data();
  args.key = config_.seed;
  args.layout = layout_;
  args.instances = instances_.get();
  args.trajectory_layout = trajectory_layout_;
  args.trajectory = trajectory_.get();
  args.network = &network_;
  args.parameters = weights_.get();
  args.num_actions = num_actions_;
  args.epsilon = epsilon_.get();
  args.hold_limits = hold_limits_.data();
  args.hold_max = algo.hold_max;
  args.gamma = static_cast<float>(algo.gamma);
  args.lambda = static_cast<float>(algo.lambda);
  args.reward_scale = static_cast<float>(algo.reward_scale);
  args.late_index = algo.compat == AlgoConfig::Compat::kPurejaxql;
  args.truncation_terminates = algo.compat == AlgoConfig::Compat::kPurejaxql;
  args.offending_state = offending_.get();
  rollout_ = args;
  const int blocks = (groups() + kTileGroups - 1) / kTileGroups;
  rollout_stream_->launch("rollout", blocks, [this](int block, int worker) {
    if (cancelled_.load(std::memory_order_relaxed)) return;
    const int first = block * kTileGroups;
    env_kernels_.rollout(rollout_, first, std::min(groups(), first + kTileGroups), scratch(worker));
  });
}

void CpuCell::enqueue_learning(std::int64_t iteration) {
  const AlgoConfig& algo = config_.algo;
  for (int u = 0; u < updates_per_iteration_; ++u) {
    const auto epoch = static_cast<std::uint32_t>(u / algo.num_minibatches);
    const int minibatch = u % algo.num_minibatches;
    const auto round = static_cast<std::uint32_t>(iteration);
    learner_stream_->launch("gradient", algo.shards, [this, round, epoch, minibatch, u](int shard, int worker) {
      if (cancelled_.load(std::memory_order_relaxed)) return;
      GradientArguments args{};
      args.network = &network_;
      args.parameters = weights_.get();
      args.trajectory_layout = trajectory_layout_;
      args.trajectory = trajectory_.get();
      args.is_image = environment_.is_image;
      args.instances = layout_.instances;
      args.num_shards = config_.algo.shards;
      args.num_minibatches = config_.algo.num_minibatches;
      args.key = config_.seed;
      args.iteration = round;
      args.epoch = epoch;
      args.minibatch = minibatch;
      args.gradients = gradients_.get();
      args.sums = sums_.data() + static_cast<std::size_t>(u) * static_cast<std::size_t>(config_.algo.shards);
      learner_.gradient(args, shard, scratch(worker));
    });
    ReduceArguments reduce{};
    reduce.parameters = network_.parameters;
    reduce.num_shards = algo.shards;
    reduce.gradients = gradients_.get();
    reduce.gradient = gradient_.get();
    reduce.squared_norms = squared_norms_.get();
    UpdateArguments update{};
    update.parameters = network_.parameters;
    update.gradient = gradient_.get();
    update.squared_norms = squared_norms_.get();
    update.weights = weights_.get();
    update.mean = mean_.get();
    update.square = square_.get();
    update.average = average_.empty() ? nullptr : average_.get();
    const Optimiser kind = optimiser_of(algo);
    update.step = make_optimiser_step(kind, updates_, learning_rate_at(config_, updates_),
                                      kind == Optimiser::kSgd ? algo.momentum : algo.beta1, algo.beta2, algo.adam_eps,
                                      algo.max_grad_norm, algo.average_decay);
    enqueue_update(reduce, update);
    ++updates_;
  }
}

void CpuCell::enqueue_update(const ReduceArguments& reduce, const UpdateArguments& update) {
  const int chunks = num_chunks(network_);
  if (chunks <= kSmallNetworkChunks) {
    learner_stream_->launch("update", 1, [this, reduce, update, chunks](int, int) {
      learner_.reduce(reduce, 0, chunks);
      learner_.update(update, 0, chunks);
    });
    return;
  }
  const int per_block = 4;
  const int blocks = (chunks + per_block - 1) / per_block;
  learner_stream_->launch("reduce", blocks, [this, reduce, chunks](int block, int) {
    learner_.reduce(reduce, block * per_block, std::min(chunks, (block + 1) * per_block));
  });
  learner_stream_->launch("update", blocks, [this, update, chunks](int block, int) {
    learner_.update(update, block * per_block, std::min(chunks, (block + 1) * per_block));
  });
}

ChunkStatistics CpuCell::take_statistics() {
  ChunkStatistics stats;
  std::uint32_t* base = instances_.get();
  const int agents = environment_.num_agents;
  for (int i = 0; i < layout_.instances; ++i) {
    std::uint32_t& completed = base[layout_.completed() + static_cast<std::size_t>(i)];
    std::uint32_t& length = base[layout_.completed_length() + static_cast<std::size_t>(i)];
    std::uint32_t& quarantined = base[layout_.quarantined() + static_cast<std::size_t>(i)];
    double sum = 0.0;
    double running = 0.0;
    for (int a = 0; a < agents; ++a) {
      float value;
      std::uint32_t* place = base + layout_.completed_return(a) + i;
      std::memcpy(&value, place, sizeof(value));
      sum += static_cast<double>(value);
      *place = 0;
      std::memcpy(&value, base + layout_.episode_return(a) + i, sizeof(value));
      running += static_cast<double>(value);
    }
    sum /= agents;
    stats.running_return_mean += running / agents;
    stats.running_length_mean += static_cast<double>(base[layout_.episode_length() + static_cast<std::size_t>(i)]);
    stats.episodes += completed;
    stats.return_sum += sum;
    stats.length_sum += length;
    stats.quarantined += quarantined;
    if (completed > 0) {
      ++stats.instances;
      stats.instance_return_sum += sum / completed;
    }
    completed = length = quarantined = 0;
  }
  stats.running_return_mean /= layout_.instances;
  stats.running_length_mean /= layout_.instances;
  std::int64_t samples = 0;
  for (const ShardSums& sums : sums_) {
    stats.squared_error_mean += sums.squared_error;
    stats.value_mean += sums.value;
    samples += sums.samples;
  }
  if (samples > 0) {
    stats.squared_error_mean /= static_cast<double>(samples);
    stats.value_mean /= static_cast<double>(samples);
  }
  return stats;
}

EvaluationResult CpuCell::evaluate(std::uint64_t key, std::uint64_t round, int episodes) {
  std::vector<float> returns(static_cast<std::size_t>(padded(episodes)));
  std::vector<std::int32_t> lengths(returns.size());
  EvaluationArguments args{};
  args.config = env_config_.data();
  args.key = key;
  args.first_instance = static_cast<std::uint32_t>(round * static_cast<std::uint64_t>(padded(episodes)));
  args.num_episodes = episodes;
  args.max_steps = environment_.rules.max_episode_steps(env_config_.data()) > 0 ? 0 : kEndlessEvaluation;
  args.network = &network_;
  args.parameters = evaluation_weights();
  args.num_actions = num_actions_;
  args.returns = returns.data();
  args.lengths = lengths.data();
  const int all = padded(episodes) / kGroup;
  evaluation_stream_->launch("evaluate", (all + kEvaluationGroups - 1) / kEvaluationGroups,
                             [this, &args, all](int block, int worker) {
                               if (cancelled_.load(std::memory_order_relaxed)) return;
                               const int first = block * kEvaluationGroups;
                               env_kernels_.evaluate(args, first, std::min(all, first + kEvaluationGroups),
                                                     scratch(worker));
                             });
  evaluation_stream_->synchronize();
  EvaluationResult result;
  result.episodes = episodes;
  for (int i = 0; i < episodes; ++i) {
    result.return_mean += static_cast<double>(returns[static_cast<std::size_t>(i)]);
    result.length_mean += static_cast<double>(lengths[static_cast<std::size_t>(i)]);
  }
  result.return_mean /= episodes;
  result.length_mean /= episodes;
  for (int i = 0; i < episodes; ++i) {
    const double d = static_cast<double>(returns[static_cast<std::size_t>(i)]) - result.return_mean;
    result.return_std += d * d;
  }
  result.return_std = std::sqrt(result.return_std / episodes);
  return result;
}

std::optional<OffendingState> CpuCell::take_offending_state() {
  if (offence_taken_) return std::nullopt;
  const std::size_t words = static_cast<std::size_t>(2 + environment_.state_words);
  for (std::size_t first = 0; first + words <= offending_.size(); first += words) {
    const std::uint32_t* record = offending_.get() + first;
    if (record[0] == 0) continue;
    offence_taken_ = true;
    return OffendingState{record[1], {record + 2, record + words}};
  }
  return std::nullopt;
}

void CpuCell::save(Checkpoint& checkpoint) const {
  for (const ParameterTensor& tensor : parameter_tensors(network_)) {
    const TensorShape shape(tensor.shape.begin(), tensor.shape.end());
    std::size_t count = 1;
    for (const std::uint64_t size : shape) count *= size;
    checkpoint.put<float>(tensor.name, shape, weights_.view().subspan(tensor.offset, count));
    if (!average_.empty()) {
      checkpoint.put<float>("average." + tensor.name, shape, average_.view().subspan(tensor.offset, count));
    }
  }
  const TensorShape flat = {network_.parameters};
  checkpoint.put<float>("optimizer.mean", flat, mean_.view());
  checkpoint.put<float>("optimizer.square", flat, square_.view());
  checkpoint.put<std::int64_t>("optimizer.updates", updates_);
  checkpoint.put<std::uint32_t>("environments",
                                {static_cast<std::uint64_t>(layout_.rows), static_cast<std::uint64_t>(layout_.stride)},
                                instances_.view());
}

void CpuCell::load(const Checkpoint& checkpoint) {
  const auto take = [](Buffer<float>& buffer, std::size_t offset, std::span<const float> values) {
    std::memcpy(buffer.get() + offset, values.data(), values.size_bytes());
  };
  for (const ParameterTensor& tensor : parameter_tensors(network_)) {
    const TensorShape shape(tensor.shape.begin(), tensor.shape.end());
    take(weights_, tensor.offset, checkpoint.get<float>(tensor.name, shape));
    if (!average_.empty()) take(average_, tensor.offset, checkpoint.get<float>("average." + tensor.name, shape));
  }
  const TensorShape flat = {network_.parameters};
  take(mean_, 0, checkpoint.get<float>("optimizer.mean", flat));
  take(square_, 0, checkpoint.get<float>("optimizer.square", flat));
  updates_ = checkpoint.get_scalar<std::int64_t>("optimizer.updates");
  const auto words = checkpoint.get<std::uint32_t>(
      "environments", {static_cast<std::uint64_t>(layout_.rows), static_cast<std::uint64_t>(layout_.stride)});
  std::memcpy(instances_.get(), words.data(), words.size_bytes());
  cancelled_.store(false, std::memory_order_relaxed);
}

}  // namespace

std::unique_ptr<Cell> make_cpu_cell(CpuDevice& device, const EnvironmentDescription& environment,
                                    const ExperimentConfig& config, Isa isa) {
  if (!environment.is_discrete) {
    throw UserError("env.id: \"" + environment.id +
                    "\" has continuous actions, and pqn learns from discrete ones only.");
  }
  return std::make_unique<CpuCell>(device, environment, config, isa);
}

}  // namespace millrace
