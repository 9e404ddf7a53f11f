// What can be set, read once for each context.
#pragma once

#include <roda/sdk/settings.hpp>
#include <string>

namespace roda::nccl {

struct Settings {
  std::string library, cuda_library;
  bool may_register;
};

inline constexpr sdk::Setting<Settings> kSettings[] = {
    {&Settings::library, "RODA_NCCL_LIBRARY", "path", "", "NCCL to open; empty: searched for."},
    {&Settings::cuda_library, "RODA_CUDA_LIBRARY", "path", "", "CUDA driver to open; empty: the system's."},
    {&Settings::may_register, "RODA_TEST_NCCL_REGISTER", "", "1", 0, 1, "0: buffers are not registered with NCCL."},
};

}  // namespace roda::nccl
