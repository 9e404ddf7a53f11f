// Copies of host memory that know when the data will not be read back from the cache. Any thread.
#pragma once

#include <cstddef>

namespace roda::cpu {

// From here on copy() streams past the cache. Alone, a process gains from 16 MiB on; several at once, which share the
// last-level cache and its bandwidth, from 8 MiB on.
inline constexpr std::size_t kStreamingBytes = std::size_t{8} << 20;

// memcpy; streaming stores for kStreamingBytes and more.
void copy(void* to, const void* from, std::size_t bytes);

// Streaming stores whatever the size: for pieces of something large. Visible to other processors when it returns.
void copy_streaming(void* to, const void* from, std::size_t bytes);

}  // namespace roda::cpu
