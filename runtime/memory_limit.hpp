// How much memory this process may still take.
#pragma once

#include <cstddef>

namespace millrace {

/// Bytes that the machine has available (MemAvailable), or the control group's limit allows, whichever is less.
[[nodiscard]] std::size_t available_memory_bytes();

}  // namespace millrace
