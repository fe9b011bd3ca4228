// What the scheduler, trainer and telemetry know of a device: streams, events, partitions and memory, with
// the semantics of CUDA streams. The CPU device (cpu_device.hpp) is one implementation; how work is launched
// belongs to each kind, because kernels differ.
//
//   std::unique_ptr<Stream> learner = device.make_stream({.name = "learner", .priority = 1});
//   std::unique_ptr<Event> updated = device.make_event();
//   learner->copy(weights.get(), host_weights.data(), bytes);
//   learner->record(*updated);
//   rollout->wait(*updated);          // on the device: the host goes on at once
//   rollout->synchronize();           // the host waits, and gets the first exception
//
// Order. Operations of one stream run one after another, in the order of their enqueueing; different streams
// are concurrent unless events order them. Everything but synchronize() returns without waiting. Priority. A
// worker that becomes free takes a block of the ready stream with the highest priority among those whose
// partition contains it. A running block is never preempted. Failure. After an exception in an operation, the
// stream's operations that are enqueued already are skipped, and the exception is kept until a synchronize()
// throws it; then the stream is as good as new. Other streams, also those that wait for an event of the
// failed one, go on. Ownership. Streams, events, partitions and memory keep what they need of the device
// alive, so they may outlive the Device object. A stream's destructor waits for its work. Thread safety:
// every function may be called from any thread at once, except that nothing may race with an object's own
// destruction or move. Operations enqueued from several threads run in one of the possible orders.
// synchronize() is for host threads, not for work that runs on the device.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/buffer.hpp"
#include "runtime/inline_function.hpp"

namespace millrace {

enum class DeviceKind { kCpu, kCuda };

[[nodiscard]] constexpr std::string_view to_string(DeviceKind kind) noexcept {
  return kind == DeviceKind::kCpu ? "cpu" : "cuda";
}

/// A host function as an operation of a stream. May throw (see Failure above) and may enqueue further work.
using HostFunction = InlineFunction<void(), 64>;

/// The part of a device (CPU workers, SMs) that a stream may use. Made by its device; shared by its streams.
class Partition {
 public:
  Partition() = default;
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;
  virtual ~Partition() = default;

  /// CPU workers or SMs in it, at least one.
  [[nodiscard]] virtual int num_workers() const noexcept = 0;
};

/// A place in a stream's work. Recording again moves it; who waits already keeps waiting for the earlier
/// place. An event that was never recorded counts as reached.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  virtual ~Event() = default;

  /// Whether all work before the last recorded place is done (or skipped after a failure).
  [[nodiscard]] virtual bool query() const = 0;
  /// Blocks the calling host thread until query() holds. If the stream failed before the recorded place, lets
  /// the stream skip what it holds, and throws its first exception.
  virtual void synchronize() = 0;
};

struct StreamOptions {
  std::string name = "stream";                      ///< for traces and messages
  int priority = 0;                                 ///< higher first; any value
  std::shared_ptr<const Partition> partition = {};  ///< null: the whole device
};

/// An ordered queue of asynchronous work.
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  /// Waits for the stream's work. A failure that nobody took is written to standard error.
  virtual ~Stream() = default;

  [[nodiscard]] virtual const std::string& name() const noexcept = 0;
  [[nodiscard]] virtual int priority() const noexcept = 0;
  [[nodiscard]] virtual const Partition& partition() const noexcept = 0;

  /// Moves `event` to this place in the stream.
  virtual void record(Event& event) = 0;
  /// Later operations of this stream start after the place where `event` was last recorded (at the time of
  /// this call). Throws std::invalid_argument for an event of another kind of device.
  virtual void wait(const Event& event) = 0;
  /// Runs `function` as one block of this stream.
  virtual void enqueue_host(HostFunction function) = 0;
  /// Copies between host and device memory, or within one. REQUIRES: the ranges do not overlap and stay alive
  /// and, the source, unchanged until the copy is done.
  virtual void copy(void* destination, const void* source, std::size_t bytes) = 0;
  /// Sets `bytes` bytes to `value`.
  virtual void fill(void* destination, unsigned char value, std::size_t bytes) = 0;
  /// Whether all work enqueued so far is done (or skipped after a failure).
  [[nodiscard]] virtual bool query() const = 0;
  /// Blocks the calling host thread until all work enqueued before this call is done. Throws the stream's
  /// first exception, once.
  virtual void synchronize() = 0;
};

/// One CPU or one card.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  [[nodiscard]] virtual DeviceKind kind() const noexcept = 0;
  /// For people, for instance "cpu, 2 workers".
  [[nodiscard]] virtual const std::string& name() const noexcept = 0;
  /// CPU worker threads or SMs.
  [[nodiscard]] virtual int num_workers() const noexcept = 0;

  /// Throws std::invalid_argument for a partition of another device.
  [[nodiscard]] virtual std::unique_ptr<Stream> make_stream(const StreamOptions& options) = 0;
  [[nodiscard]] virtual std::unique_ptr<Event> make_event() = 0;
  /// Disjoint partitions of the given sizes. A CUDA device may round sizes up to what the card can split; the
  /// CPU takes workers 0, 1, … in order. Throws UserError for a size below one or more workers than there
  /// are.
  [[nodiscard]] virtual std::vector<std::shared_ptr<const Partition>> make_partitions(
      std::span<const int> sizes) = 0;
  /// Memory aligned to kDeviceMemoryAlignment; zero bytes are allowed. Throws RunError, naming the size.
  [[nodiscard]] virtual DeviceMemory allocate(std::size_t bytes) = 0;
  /// Bytes that allocate() handed out and that are still owned by somebody.
  [[nodiscard]] virtual std::size_t bytes_allocated() const noexcept = 0;
};

}  // namespace millrace
