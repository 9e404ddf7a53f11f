// What the CUDA double runs in place of our kernels: host functions of the same names. A reference of its own, written
// for clearness, that knows of the kernels only what they are given.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace roda::cuda_double {

using Run = void (*)(unsigned blocks, unsigned threads, const void* argument);

struct Kernel {
  const char* name;
  std::size_t argument_bytes;  // each kernel takes one struct by value
  Run run;
  bool (*touch)(const void* argument);  // says what it will read and write; false: it must not run
};

// Null: no kernel of that name. With RODA_CUDA_DOUBLE_KERNELS=source it is the kernel's own source, run by the host,
// where CUDA's headers were there to compile it.
const Kernel* find_kernel(const std::string& name);
Run find_source_kernel(const std::string& name);

}  // namespace roda::cuda_double
