// AMD's GPUs by the same table: HIP's functions in the places of the CUDA driver's. UNPROVEN: it has run over a double
// of HIP alone.
#pragma once

#include "plugins/base/cuda/driver.h"

namespace roda::cuda {

inline constexpr int kOldestHip = 7000;  // ROCm 7.0: in the table's coding, as 12040 is CUDA 12.4

// Fills the table from a library that has hipInit. The name of a function that it lacks; null: all are there.
const char* fill_from_hip(void* library, Driver* driver);

}  // namespace roda::cuda
