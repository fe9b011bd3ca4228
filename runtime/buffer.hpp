// Memory of a device: DeviceMemory owns bytes, Buffer<T> owns elements, a std::span is a view of them.
//
//   Buffer<float> rewards(device, num_steps * num_envs);   // owns
//   std::span<float> view = rewards.view();                // does not
//
// Invariants: memory is aligned to kDeviceMemoryAlignment; it goes back to the resource that made it, which
// outlives it (shared ownership), so memory may outlive the device handle. Its content is indeterminate;
// builds with MILLRACE_DEBUG fill it with kPoisonByte so that a read before the first write shows. A buffer
// does not know which streams use it: the owner synchronises them before it lets the buffer go. Thread
// safety: a resource may be used from any thread; a buffer is a plain value.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace millrace {

class Device;

inline constexpr std::size_t kDeviceMemoryAlignment = 64;
inline constexpr unsigned char kPoisonByte = 0xCB;

/// Where a device's memory comes from, and the account of it.
class MemoryResource {
 public:
  MemoryResource() = default;
  MemoryResource(const MemoryResource&) = delete;
  MemoryResource& operator=(const MemoryResource&) = delete;
  virtual ~MemoryResource() = default;

  /// Returns `bytes` > 0 of memory aligned to kDeviceMemoryAlignment, poisoned in debug builds.
  /// Throws RunError, naming the size, if there is not enough.
  [[nodiscard]] void* acquire(std::size_t bytes);
  void release(void* data, std::size_t bytes) noexcept;

  /// Bytes handed out and not yet given back, as asked for (without rounding).
  [[nodiscard]] std::size_t bytes_allocated() const noexcept {
    return bytes_allocated_.load(std::memory_order_relaxed);
  }

 private:
  /// Returns null if there is not enough memory.
  [[nodiscard]] virtual void* do_acquire(std::size_t bytes) noexcept = 0;
  virtual void do_release(void* data, std::size_t bytes) noexcept = 0;
  virtual void do_poison(void* data, std::size_t bytes) noexcept = 0;
  /// The memory's name in an error message, for instance "host memory".
  [[nodiscard]] virtual const char* what() const noexcept = 0;

  std::atomic<std::size_t> bytes_allocated_{0};
};

/// The host's memory, as the CPU device uses it. Large blocks ask for huge pages.
[[nodiscard]] std::shared_ptr<MemoryResource> make_host_memory_resource();

/// Owns bytes of a device's memory. Move-only; a moved-from or default one is empty.
class DeviceMemory {
 public:
  DeviceMemory() noexcept = default;
  /// Zero bytes are allowed and give an empty memory. Throws RunError if there is not enough.
  DeviceMemory(std::shared_ptr<MemoryResource> resource, std::size_t bytes);
  DeviceMemory(DeviceMemory&& other) noexcept
      : resource_(std::move(other.resource_)),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    DeviceMemory taken(std::move(other));
    std::swap(resource_, taken.resource_);
    std::swap(data_, taken.data_);
    std::swap(bytes_, taken.bytes_);
    return *this;
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() {
    if (data_ != nullptr) resource_->release(data_, bytes_);
  }

  /// A device address: the host may follow it only where the device's kind says so. Null if empty.
  [[nodiscard]] void* get() const noexcept { return data_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return bytes_; }

 private:
  std::shared_ptr<MemoryResource> resource_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// bytes = count * size_of_one; throws RunError, naming both, if that is more than an address can hold.
[[nodiscard]] std::size_t buffer_bytes(std::size_t count, std::size_t size_of_one);
/// device.allocate(bytes), for this header's template.
[[nodiscard]] DeviceMemory allocate_on(Device& device, std::size_t bytes);

/// Owns `size()` elements of a device's memory; they are not initialised.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>, "device memory holds trivially copyable elements only");
  static_assert(alignof(T) <= kDeviceMemoryAlignment);

 public:
  Buffer() noexcept = default;
  /// Throws RunError if the device has not enough memory.
  Buffer(Device& device, std::size_t count)
      : memory_(allocate_on(device, buffer_bytes(count, sizeof(T)))), size_(count) {}
  Buffer(Buffer&& other) noexcept : memory_(std::move(other.memory_)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    memory_ = std::move(other.memory_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() = default;

  [[nodiscard]] std::span<T> view() noexcept { return {get(), size_}; }
  [[nodiscard]] std::span<const T> view() const noexcept { return {get(), size_}; }
  /// Elements [first, first + count). REQUIRES: they lie within the buffer.
  [[nodiscard]] std::span<T> view(std::size_t first, std::size_t count) noexcept {
    return view().subspan(first, count);
  }
  [[nodiscard]] std::span<const T> view(std::size_t first, std::size_t count) const noexcept {
    return view().subspan(first, count);
  }

  [[nodiscard]] T* get() noexcept { return static_cast<T*>(memory_.get()); }
  [[nodiscard]] const T* get() const noexcept { return static_cast<const T*>(memory_.get()); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }

 private:
  DeviceMemory memory_;
  std::size_t size_ = 0;
};

}  // namespace millrace
