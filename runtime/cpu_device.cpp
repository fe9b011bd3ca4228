// The handles of the CPU device; the work is done in cpu_stream_state.cpp and cpu_pool.cpp.
#include "runtime/cpu_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <type_traits>

#include "runtime/cpu_pool.hpp"
#include "runtime/cpu_stream_state.hpp"
#include "runtime/cpu_topology.hpp"
#include "runtime/error.hpp"

namespace millrace {

namespace {

// Longer than the gaps in a chain of launches, shorter than a time slice. With more workers than CPUs a
// spinning thread only takes time from one that works.
constexpr std::chrono::microseconds kWorkerSpin{50};
constexpr std::chrono::microseconds kHostSpin{20};
constexpr std::chrono::microseconds kHostSpinWithoutSpareCpu{5};

// Enough for one core to be busy some tens of microseconds, so that large copies share the memory channels.
constexpr std::size_t kCopyBlockBytes = std::size_t{1} << 20;

/// A stream's place, or nothing.
class CpuEvent final : public Event {
 public:
  struct Place {
    std::shared_ptr<CpuStreamState> stream;
    std::uint64_t place = 0;
  };

  void record(std::shared_ptr<CpuStreamState> stream) {
    const std::lock_guard lock(mutex_);
    recorded_.place = stream->enqueued();
    recorded_.stream = std::move(stream);
  }
  [[nodiscard]] Place recorded() const {
    const std::lock_guard lock(mutex_);
    return recorded_;
  }

  bool query() const override {
    const Place at = recorded();
    return !at.stream || at.stream->reached(at.place);
  }
  void synchronize() override {
    const Place at = recorded();
    if (!at.stream) return;
    at.stream->wait_on_host(at.place);
    if (!at.stream->has_failure_before(at.place)) return;
    at.stream->wait_on_host(
        at.stream->enqueued());  // what is skipped must be past before operations run again
    if (const std::exception_ptr failure = at.stream->take_failure(at.place)) std::rethrow_exception(failure);
  }

 private:
  mutable std::mutex mutex_;
  Place recorded_;
};

/// `AnyEvent` is Event or const Event.
template <class AnyEvent>
auto& as_cpu_event(AnyEvent& event) {
  using Target = std::conditional_t<std::is_const_v<AnyEvent>, const CpuEvent, CpuEvent>;
  auto* const cpu_event = dynamic_cast<Target*>(&event);
  if (cpu_event == nullptr)
    throw std::invalid_argument("a stream of the CPU device was given another device's event");
  return *cpu_event;
}

std::string what_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

int checked_threads(int threads) {
  if (threads < 0 || threads > kMaxCpuWorkers) {
    throw UserError(
        fmt::format("the CPU device cannot have {} threads; allowed are 1 to {}, or 0 for all CPUs", threads,
                    kMaxCpuWorkers));
  }
  return threads == 0 ? usable_cpus() : threads;
}

int blocks_of_bytes(std::size_t bytes) {
  const std::size_t blocks = (bytes + kCopyBlockBytes - 1) / kCopyBlockBytes;
  if (blocks > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw std::invalid_argument(fmt::format("{} bytes are more than one copy or fill can take", bytes));
  }
  return static_cast<int>(blocks);
}

}  // namespace

CpuStream::CpuStream(std::shared_ptr<CpuPool> pool, const StreamOptions& options,
                     std::shared_ptr<const CpuPartition> partition)
    : pool_(std::move(pool)),
      partition_(std::move(partition)),
      state_(
          std::make_shared<CpuStreamState>(*pool_, options.name, options.priority, partition_->workers())) {
  pool_->add_stream(state_);
}

CpuStream::~CpuStream() {
  const std::uint64_t end = state_->enqueued();
  if (!state_->reached(end) && pool_->is_own_worker()) {
    std::fprintf(stderr, "millrace: stream '%s' was destroyed by work of its own device while it was busy\n",
                 name().c_str());
    std::abort();
  }
  state_->wait_on_host(end);
  if (state_->has_failure_before(end)) {
    const std::string operation = state_->failed_operation();
    std::fprintf(stderr, "millrace: stream '%s' ended with a failure in '%s' that nobody asked for: %s\n",
                 name().c_str(), operation.c_str(), what_of(state_->take_failure(end)).c_str());
  }
  pool_->remove_stream(*state_);
}

const std::string& CpuStream::name() const noexcept { return state_->name(); }
int CpuStream::priority() const noexcept { return state_->priority(); }

void CpuStream::launch(const char* name, int blocks, BlockFunction body) {
  if (blocks < 0 || !body) {
    throw std::invalid_argument(fmt::format("launch '{}' in stream '{}' has {}", name, this->name(),
                                            body ? "fewer than 0 blocks" : "no body"));
  }
  state_->enqueue({.name = name, .blocks = blocks, .body = std::move(body), .producer = nullptr, .place = 0});
}

void CpuStream::record(Event& event) { as_cpu_event(event).record(state_); }

void CpuStream::wait(const Event& event) {
  CpuEvent::Place at = as_cpu_event(event).recorded();
  if (!at.stream || at.stream->reached(at.place)) return;
  state_->enqueue(
      {.name = "wait", .blocks = 0, .body = {}, .producer = std::move(at.stream), .place = at.place});
}

void CpuStream::enqueue_host(HostFunction function) {
  if (!function)
    throw std::invalid_argument(fmt::format("stream '{}' was given an empty host function", name()));
  launch("host", 1, [function = std::move(function)](int, int) mutable { function(); });
}

void CpuStream::copy(void* destination, const void* source, std::size_t bytes) {
  auto* const to = static_cast<std::byte*>(destination);
  const auto* const from = static_cast<const std::byte*>(source);
  launch("copy", blocks_of_bytes(bytes), [to, from, bytes](int block, int) {
    const std::size_t begin = static_cast<std::size_t>(block) * kCopyBlockBytes;
    std::memcpy(to + begin, from + begin, std::min(kCopyBlockBytes, bytes - begin));
  });
}

void CpuStream::fill(void* destination, unsigned char value, std::size_t bytes) {
  auto* const to = static_cast<std::byte*>(destination);
  launch("fill", blocks_of_bytes(bytes), [to, value, bytes](int block, int) {
    const std::size_t begin = static_cast<std::size_t>(block) * kCopyBlockBytes;
    std::memset(to + begin, value, std::min(kCopyBlockBytes, bytes - begin));
  });
}

bool CpuStream::query() const { return state_->reached(state_->enqueued()); }

void CpuStream::synchronize() {
  const std::uint64_t end = state_->enqueued();
  state_->wait_on_host(end);
  if (const std::exception_ptr failure = state_->take_failure(end)) std::rethrow_exception(failure);
}

CpuDevice::CpuDevice(const CpuDeviceOptions& options) : memory_(make_host_memory_resource()) {
  const int threads = checked_threads(options.threads);
  std::vector<int> cpus = allowed_cpus();
  const int num_cpus = static_cast<int>(cpus.size());
  pinned_ = (options.pinning == CpuPinning::kOn && threads <= num_cpus) ||
            (options.pinning == CpuPinning::kAuto && threads == num_cpus);
  if (!pinned_) cpus.clear();
  const int at_full_speed = usable_cpus();
  pool_ = std::make_shared<CpuPool>(threads, std::move(cpus),
                                    threads <= at_full_speed ? kWorkerSpin : std::chrono::microseconds{0},
                                    threads < at_full_speed ? kHostSpin : kHostSpinWithoutSpareCpu);
  std::vector<int> all(static_cast<std::size_t>(threads));
  std::iota(all.begin(), all.end(), 0);
  whole_ = std::make_shared<CpuPartition>(pool_, std::move(all));
  name_ =
      fmt::format("cpu, {} {}{}", threads, threads == 1 ? "worker" : "workers", pinned_ ? ", pinned" : "");
}

int CpuDevice::num_workers() const noexcept { return pool_->num_workers(); }

std::unique_ptr<Stream> CpuDevice::make_stream(const StreamOptions& options) {
  return make_cpu_stream(options);
}

std::unique_ptr<CpuStream> CpuDevice::make_cpu_stream(const StreamOptions& options) {
  std::shared_ptr<const CpuPartition> partition = whole_;
  if (options.partition) {
    partition = std::dynamic_pointer_cast<const CpuPartition>(options.partition);
    if (!partition || !partition->belongs_to(pool_)) {
      throw std::invalid_argument(
          fmt::format("stream '{}' was given a partition of another device", options.name));
    }
  }
  return std::make_unique<CpuStream>(pool_, options, std::move(partition));
}

std::unique_ptr<Event> CpuDevice::make_event() { return std::make_unique<CpuEvent>(); }

std::vector<std::shared_ptr<const Partition>> CpuDevice::make_partitions(std::span<const int> sizes) {
  std::vector<std::shared_ptr<const Partition>> partitions;
  int first = 0;
  for (const int size : sizes) {
    if (size < 1 || size > num_workers() - first) {
      throw UserError(
          fmt::format("partitions of {} workers cannot be made of a CPU device with {}: each needs at least "
                      "1, and the sum at most {}",
                      fmt::join(sizes, " + "), num_workers(), num_workers()));
    }
    std::vector<int> workers(static_cast<std::size_t>(size));
    std::iota(workers.begin(), workers.end(), first);
    partitions.push_back(std::make_shared<CpuPartition>(pool_, std::move(workers)));
    first += size;
  }
  return partitions;
}

std::shared_ptr<const CpuPartition> CpuDevice::make_partition(std::span<const int> workers) {
  std::vector<int> sorted(workers.begin(), workers.end());
  std::sort(sorted.begin(), sorted.end());
  if (sorted.empty() || sorted.front() < 0 || sorted.back() >= num_workers() ||
      std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    throw UserError(
        fmt::format("a partition of workers [{}] cannot be made: it needs different workers, at least one, "
                    "of 0 to {}",
                    fmt::join(workers, ", "), num_workers() - 1));
  }
  return std::make_shared<CpuPartition>(pool_, std::move(sorted));
}

}  // namespace millrace
