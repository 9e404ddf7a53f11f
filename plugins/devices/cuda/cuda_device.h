// GPUs as a device: memory within a budget, kernels that pack, scale and reduce, streams and events. The CUDA driver
// is opened at run time; no context is made on a device before it is used.
#pragma once

#include <roda/abi/device.h>

// For programs that link the device instead of loading it. Its probe must have succeeded before any other entry.
const roda_device* roda_cuda_device(void);
