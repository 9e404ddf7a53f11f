// The kernels as the compiler made them, inside the plugin.
#pragma once

namespace roda::cuda_device {

struct Image {
  const void* bytes;        // null: none were built
  const char* description;  // architectures and compiler; or why there are none
};
const Image& kernel_image();

}  // namespace roda::cuda_device
