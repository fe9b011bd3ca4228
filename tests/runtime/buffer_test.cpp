// Buffers: alignment, ownership, accounting, poison, and the message when memory does not suffice.
#include "runtime/buffer.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cpu_device.hpp"
#include "runtime/error.hpp"

// Let a hopeless allocation fail under the sanitizers as it does without them.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "allocator_may_return_null=1"; }

namespace millrace {
namespace {

TEST(Buffer, IsAlignedAndWritableAtAnySize) {
  CpuDevice device({.threads = 1});
  for (const std::size_t count : {1u, 31u, 33u, 2047u, 4'000'001u}) {
    Buffer<float> buffer(device, count);
    ASSERT_EQ(buffer.size(), count);
    EXPECT_EQ(buffer.size_bytes(), count * sizeof(float));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.get()) % kDeviceMemoryAlignment, 0u);
    for (std::size_t i = 0; i < count; ++i) buffer.view()[i] = static_cast<float>(i % 1024);
    const Buffer<float>& constant = buffer;
    EXPECT_EQ(constant.view()[count - 1], static_cast<float>((count - 1) % 1024));
  }
}

TEST(Buffer, AccountsForWhatIsAlive) {
  CpuDevice device({.threads = 1});
  EXPECT_EQ(device.bytes_allocated(), 0u);
  {
    Buffer<std::uint64_t> first(device, 100);
    EXPECT_EQ(device.bytes_allocated(), 800u);
    Buffer<std::uint8_t> second(device, 33);
    EXPECT_EQ(device.bytes_allocated(), 833u);
    Buffer<std::uint64_t> moved = std::move(first);
    EXPECT_EQ(device.bytes_allocated(), 833u);
    EXPECT_EQ(moved.size(), 100u);
    EXPECT_EQ(first.size(), 0u);  // NOLINT(bugprone-use-after-move): the promise under test
    EXPECT_EQ(first.get(), nullptr);
    moved = Buffer<std::uint64_t>(device, 1);
    EXPECT_EQ(device.bytes_allocated(), 41u);
    moved = Buffer<std::uint64_t>();
    EXPECT_EQ(device.bytes_allocated(), 33u);
  }
  EXPECT_EQ(device.bytes_allocated(), 0u);
}

TEST(Buffer, ZeroElementsNeedNoMemory) {
  CpuDevice device({.threads = 1});
  Buffer<double> buffer(device, 0);
  EXPECT_TRUE(buffer.empty());
  EXPECT_TRUE(buffer.view().empty());
  EXPECT_EQ(device.bytes_allocated(), 0u);
}

TEST(Buffer, OutlivesItsDevice) {
  auto device = std::make_unique<CpuDevice>(CpuDeviceOptions{.threads = 2});
  Buffer<int> buffer(*device, 1000);
  device.reset();
  for (int& element : buffer.view()) element = 7;
  EXPECT_EQ(buffer.view(999, 1)[0], 7);
}

TEST(Buffer, FreshMemoryIsPoisonedInDebugBuilds) {
#ifdef MILLRACE_DEBUG
  CpuDevice device({.threads = 1});
  for (const std::size_t bytes : {1u, 63u, 65u, 100'003u}) {
    const Buffer<unsigned char> buffer(device, bytes);
    for (const unsigned char byte : buffer.view()) ASSERT_EQ(byte, 0xCB);
  }
#else
  GTEST_SKIP() << "poison is for builds with MILLRACE_DEBUG";
#endif
}

TEST(Buffer, FailedAllocationNamesTheSizeAndChangesNothing) {
  CpuDevice device({.threads = 1});
  const Buffer<char> kept(device, 5);
  constexpr std::size_t kHopeless = std::size_t{1} << 60;
  try {
    const DeviceMemory memory = device.allocate(kHopeless);
    FAIL() << "got " << memory.size_bytes() << " bytes";
  } catch (const RunError& error) {
    EXPECT_NE(std::string(error.what()).find("1152921504606846976 bytes (1.0 EiB)"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(device.bytes_allocated(), 5u);
  constexpr std::size_t kOverflowing = std::numeric_limits<std::size_t>::max() / 4;
  EXPECT_THROW(Buffer<double>(device, kOverflowing), RunError);
  EXPECT_EQ(device.bytes_allocated(), 5u);
}

}  // namespace
}  // namespace millrace
