// Memory of the CUDA double: host memory that says it belongs to a device. It remembers who read and wrote each part of
// it last. Addresses are never used twice, and what was given back traps.
#pragma once

#include <cstddef>

#include "plugins/base/cuda/types.h"

namespace roda::cuda_double {

// All from any thread. `device` -1: pinned host memory. What is given back must be known to be out of use.
cuda::Result allocate(int device, std::size_t bytes, void** address);
cuda::Result release(void* address, bool of_device, const char* what);
// The device of the range that the address lies in; -2: unknown.
int owner_of(const void* address);
// Bytes of the device in use, and how many it has (RODA_CUDA_DOUBLE_MEMORY, 1 GiB).
void usage(int device, std::size_t* used, std::size_t* total);

// The work that runs on this thread, or the host, reads or writes: a mistake if nothing orders that behind earlier
// accesses, or if the memory is not there. False: it must not be done. Memory of others than the double is not looked
// at.
bool touch(const void* address, std::size_t bytes, bool writes, const char* what);

// A copy is made: whether between a device's memory and pinned host memory; and how many bytes were, so far.
bool note_copy(const void* to, const void* from, std::size_t bytes);
unsigned long long staged_bytes();

// A setting of the double's; `otherwise` when it is not set.
long setting(const char* name, long otherwise);

}  // namespace roda::cuda_double
