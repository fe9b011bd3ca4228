// The CPU as a device: a pool of pinned worker threads behind the interface of device.hpp, plus launches.
//
//   CpuDevice device({.threads = 0});
//   const std::unique_ptr<CpuStream> stream = device.make_cpu_stream({.name = "rollout"});
//   stream->launch("step", num_tiles, [=](int tile, int worker) { step(tile, scratch[worker]); });
//   stream->synchronize();
//
// A launch is a grid of independent blocks: they run in any order and on any of the partition's workers, so
// what they compute must not depend on either. The calling thread is never a worker. Blocks must not wait for
// each other. Work that is on its way costs memory: whoever enqueues far ahead bounds its own lead with
// events.
//
// Thread safety, order, failure and ownership: device.hpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/cpu_op_queue.hpp"
#include "runtime/device.hpp"

namespace millrace {

class CpuPool;
class CpuStreamState;

enum class CpuPinning {
  kAuto,  ///< one worker to a CPU if the workers take all the CPUs this process may use; otherwise the system
          ///< places them, because two processes that pin half of them each would both choose the same half
  kOn,    ///< also if there are fewer workers than CPUs
  kOff,
};

struct CpuDeviceOptions {
  int threads =
      0;  ///< 1 to kMaxCpuWorkers; 0: all CPUs that affinity mask and control group let this process use
  CpuPinning pinning = CpuPinning::kAuto;  ///< never with more workers than CPUs
};

inline constexpr int kMaxCpuWorkers = 4096;

/// Some of a CPU device's workers.
class CpuPartition final : public Partition {
 public:
  CpuPartition(std::weak_ptr<const CpuPool> pool, std::vector<int> workers)
      : pool_(std::move(pool)), workers_(std::move(workers)) {}
  [[nodiscard]] int num_workers() const noexcept override { return static_cast<int>(workers_.size()); }
  /// Worker indices, ascending.
  [[nodiscard]] const std::vector<int>& workers() const noexcept { return workers_; }
  [[nodiscard]] bool belongs_to(const std::shared_ptr<CpuPool>& pool) const noexcept {
    return !pool_.owner_before(pool) && !pool.owner_before(pool_);
  }

 private:
  std::weak_ptr<const CpuPool> pool_;  // identifies the device, also after its end
  std::vector<int> workers_;
};

class CpuStream final : public Stream {
 public:
  /// Use CpuDevice::make_cpu_stream().
  CpuStream(std::shared_ptr<CpuPool> pool, const StreamOptions& options,
            std::shared_ptr<const CpuPartition> partition);
  ~CpuStream() override;

  [[nodiscard]] const std::string& name() const noexcept override;
  [[nodiscard]] int priority() const noexcept override;
  [[nodiscard]] const CpuPartition& partition() const noexcept override { return *partition_; }

  /// Runs body(block, worker) once for each block in [0, blocks), several at a time; 0 <= worker <
  /// device.num_workers(), and no two blocks have the same worker at the same time. `name` must live as long
  /// as the stream (a literal). No heap allocation in the steady state if the body is at most
  /// BlockFunction::kInlineBytes large. Throws std::invalid_argument for blocks < 0 or an empty body.
  void launch(const char* name, int blocks, BlockFunction body);

  void record(Event& event) override;
  void wait(const Event& event) override;
  void enqueue_host(HostFunction function) override;
  void copy(void* destination, const void* source, std::size_t bytes) override;
  void fill(void* destination, unsigned char value, std::size_t bytes) override;
  [[nodiscard]] bool query() const override;
  void synchronize() override;

 private:
  std::shared_ptr<CpuPool> pool_;
  std::shared_ptr<const CpuPartition> partition_;
  std::shared_ptr<CpuStreamState> state_;
};

class CpuDevice final : public Device {
 public:
  /// Throws UserError for a number of threads out of range, RunError if the system refuses them.
  explicit CpuDevice(const CpuDeviceOptions& options = {});
  ~CpuDevice() override = default;

  [[nodiscard]] DeviceKind kind() const noexcept override { return DeviceKind::kCpu; }
  [[nodiscard]] const std::string& name() const noexcept override { return name_; }
  [[nodiscard]] int num_workers() const noexcept override;
  /// Whether each worker was given a CPU of its own.
  [[nodiscard]] bool pinned() const noexcept { return pinned_; }

  [[nodiscard]] std::unique_ptr<Stream> make_stream(const StreamOptions& options) override;
  [[nodiscard]] std::unique_ptr<CpuStream> make_cpu_stream(const StreamOptions& options = {});
  [[nodiscard]] std::unique_ptr<Event> make_event() override;
  [[nodiscard]] std::vector<std::shared_ptr<const Partition>> make_partitions(
      std::span<const int> sizes) override;
  /// A partition of the given workers, in any order. Throws UserError for none, a repeated one, or one out of
  /// range.
  [[nodiscard]] std::shared_ptr<const CpuPartition> make_partition(std::span<const int> workers);
  [[nodiscard]] DeviceMemory allocate(std::size_t bytes) override { return DeviceMemory(memory_, bytes); }
  [[nodiscard]] std::size_t bytes_allocated() const noexcept override { return memory_->bytes_allocated(); }

 private:
  bool pinned_ = false;
  std::shared_ptr<CpuPool> pool_;
  std::shared_ptr<const CpuPartition> whole_;
  std::shared_ptr<MemoryResource> memory_;
  std::string name_;
};

}  // namespace millrace
