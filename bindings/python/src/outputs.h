// Outputs that the engine owns, handed to a framework without a copy.
#pragma once

#include <cstdint>

#include "bindings/c/roda.h"
#include "bindings/python/src/object.h"

namespace roda::python {

// Output `index` of a done handle as the tuple (capsule, received_splits, value): a DLPack capsule ("dltensor") that
// holds the engine's reference until the framework drops its tensor, or None where there is no tensor; the list of
// received splits (alltoall, else None); the value (join, else 0). Throws a Python exception on failure. Call with the
// GIL held.
Object take_output(roda_handle handle, std::int32_t index);

// Memory that the ranks of a process set reach, as a DLPack capsule of bytes that gives it back when its tensor dies;
// None where there is none. Call with the GIL held.
Object lend_memory(std::int32_t process_set, std::uint64_t bytes);

}  // namespace roda::python
