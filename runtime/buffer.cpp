// Device memory: accounting, error messages, and the host's memory resource.
#include "runtime/buffer.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstring>
#include <limits>
#include <new>

#include "runtime/device.hpp"
#include "runtime/error.hpp"

namespace millrace {

namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

std::string readable_size(std::size_t bytes) {
  constexpr double kKibi = 1024.0;
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double amount = static_cast<double>(bytes) / kKibi;
  int unit = 0;
  for (; amount >= kKibi && unit < 5; ++unit) amount /= kKibi;
  return fmt::format("{} bytes ({:.1f} {})", bytes, amount, units[unit]);
}

class HostMemoryResource final : public MemoryResource {
  // Blocks of many huge pages start on one, so that the kernel can back them with huge pages from the first
  // byte: replay memory is read at random places, and misses of the translation buffer would dominate that.
  static std::align_val_t alignment_of(std::size_t bytes) noexcept {
    return std::align_val_t{bytes >= 4 * kHugePageBytes ? kHugePageBytes : kDeviceMemoryAlignment};
  }

  void* do_acquire(std::size_t bytes) noexcept override {
    const std::align_val_t alignment = alignment_of(bytes);
    void* const data = ::operator new(bytes, alignment, std::nothrow);
    if (data != nullptr && alignment == std::align_val_t{kHugePageBytes}) {
      ::madvise(data, bytes / kHugePageBytes * kHugePageBytes,
                MADV_HUGEPAGE);  // a wish: refusal changes nothing
    }
    return data;
  }
  void do_release(void* data, std::size_t bytes) noexcept override {
    ::operator delete(data, alignment_of(bytes));
  }
  void do_poison(void* data, std::size_t bytes) noexcept override { std::memset(data, kPoisonByte, bytes); }
  const char* what() const noexcept override { return "host memory"; }
};

}  // namespace

void* MemoryResource::acquire(std::size_t bytes) {
  void* const data = do_acquire(bytes);
  if (data == nullptr) {
    throw RunError(fmt::format("could not allocate {} of {}; {} are allocated already", readable_size(bytes),
                               what(), readable_size(bytes_allocated())));
  }
#ifdef MILLRACE_DEBUG
  do_poison(data, bytes);
#endif
  bytes_allocated_.fetch_add(bytes, std::memory_order_relaxed);
  return data;
}

void MemoryResource::release(void* data, std::size_t bytes) noexcept {
  do_release(data, bytes);
  bytes_allocated_.fetch_sub(bytes, std::memory_order_relaxed);
}

std::shared_ptr<MemoryResource> make_host_memory_resource() { return std::make_shared<HostMemoryResource>(); }

DeviceMemory::DeviceMemory(std::shared_ptr<MemoryResource> resource, std::size_t bytes)
    : resource_(std::move(resource)),
      data_(bytes == 0 ? nullptr : resource_->acquire(bytes)),
      bytes_(bytes) {}

std::size_t buffer_bytes(std::size_t count, std::size_t size_of_one) {
  if (count > std::numeric_limits<std::size_t>::max() / size_of_one) {
    throw RunError(
        fmt::format("a buffer of {} elements of {} bytes is larger than any memory", count, size_of_one));
  }
  return count * size_of_one;
}

DeviceMemory allocate_on(Device& device, std::size_t bytes) { return device.allocate(bytes); }

}  // namespace millrace
