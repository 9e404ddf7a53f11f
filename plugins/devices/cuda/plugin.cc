#include <roda/sdk/plugin.hpp>

#include "plugins/devices/cuda/cuda_device.h"

RODA_DEVICE_PLUGIN("cuda", roda_cuda_device());
