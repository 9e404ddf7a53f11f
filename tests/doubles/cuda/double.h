// A DOUBLE of the CUDA driver, for tests without a GPU: a shared library with the functions of libcuda.so.1 that this
// project calls. Devices' memory is host memory, streams are queues with a thread each, kernels are host functions of
// the same name. It proves our logic only: nothing that runs on it says anything about a GPU.
//
// Settings, by environment: RODA_CUDA_DOUBLE_DEVICES (8), _VERSION (13000), _MEMORY (bytes of each device, 1 GiB),
// _DELAY_US (each piece of work on a stream), _INIT_ERROR (what cuInit returns), _MODULE_ERROR (what cuModuleLoadData
// returns). For tests in the same process it exports the functions below.
#pragma once

extern "C" {
// From now on every call that touches the device returns this, as after a kernel that failed; 0: no more.
void roda_cuda_double_set_error(int result);
// 1: all streams record a graph, which takes in what is put on them. 2: another thread records one, globally, so that
// queries and allocations are errors to threads that didn't ask for another mode.
void roda_cuda_double_set_capturing(int captures);
// What graphs have taken in, or calls have spoilt, since the process began.
unsigned roda_cuda_double_captured();
// Contexts that were made for devices, one bit each.
unsigned roda_cuda_double_contexts();
// What was put on streams since the process began.
struct roda_cuda_double_puts {
  unsigned long long kernels, events, waits;
};
void roda_cuda_double_count(roda_cuda_double_puts* counts);
// Bytes that were copied between devices' memory and pinned host memory since the process began.
unsigned long long roda_cuda_double_staged_bytes();
}
