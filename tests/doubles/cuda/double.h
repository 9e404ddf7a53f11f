// A DOUBLE of the CUDA driver, for tests without a GPU: a shared library with the functions of libcuda.so.1 that this
// project calls. Devices' memory is host memory, streams are queues with a thread each, kernels are host functions of
// the same name. It proves our logic only: nothing that runs on it says anything about a GPU.
//
// It ends the process, with what happened, when memory is read or written that nothing orders behind an earlier access
// (an event, or a host that waited for one), that was given back, or that is another GPU's; when memory is given back
// that is in use; and when operations of one communicator are in no order. What the host's processor does with pinned
// memory it sees only where a double does that.
//
// Settings, by environment: RODA_CUDA_DOUBLE_DEVICES (8), _VERSION (13000), _MEMORY (bytes of each device, 1 GiB),
// _DELAY_US (each piece of work on a stream), _WRITES_ORDERING (of GPUs, for RDMA; 0: none), _INIT_ERROR (what cuInit
// returns), _MODULE_ERROR (what cuModuleLoadData returns). For tests in the same process it exports the functions
// below.
#pragma once

#include <cstddef>

extern "C" {
// From now on every call that touches the device returns this, as after a kernel that failed; 0: no more.
void roda_cuda_double_set_error(int result);
// What recordings of graphs have taken in, or calls have spoilt, since the process began.
unsigned roda_cuda_double_captured();
// Contexts that were made for devices, one bit each.
unsigned roda_cuda_double_contexts();
// What was put on streams since the process began, and how often it was asked where a pointer points.
struct roda_cuda_double_puts {
  unsigned long long kernels, events, waits, questions;
};
void roda_cuda_double_count(roda_cuda_double_puts* counts);
// Bytes that were copied between devices' memory and pinned host memory since the process began.
unsigned long long roda_cuda_double_staged_bytes();

// 1: from now on copies between devices' memory and the host's and operations of communicators are compared, each with
// each. How many pairs there were since then that nothing orders, so that they may run at one time.
unsigned roda_cuda_double_overlaps(int counts);

// 1: what this thread does from here on is the program's own, which relies on the engine's waits only where it says so
// by roda_cuda_double_join(): the program has waited for the engine. 0: the engine's.
void roda_cuda_double_set_program(int is_program);
void roda_cuda_double_join();
// Other doubles read or write memory (0: they must not), and work on one communicator: as the work that runs on this
// thread, else as the host. `what` is for the message.
int roda_cuda_double_touch(const void* address, std::size_t bytes, int writes, const char* what);
void roda_cuda_double_take_turn(const void* thing, const char* what);

// 1: mistakes don't end the process. How many there were since the last call, and the text of the last one.
void roda_cuda_double_keep_mistakes(int keeps);
int roda_cuda_double_mistakes(char* last, unsigned capacity);
// A fault to seed from now on: in the `which`th place that it fits (from 1), or in all (0). How many places the fault
// that was seeded before would have fitted. Streams run in order all the same, so that the data stay right.
enum {
  RODA_CUDA_DOUBLE_NO_FAULT,
  RODA_CUDA_DOUBLE_NO_WAIT,       // of a stream for an event that it isn't behind already
  RODA_CUDA_DOUBLE_EARLY_EVENT,   // the same, for one recorded before the last piece of work
  RODA_CUDA_DOUBLE_NO_HOST_WAIT,  // of the engine's for an event, which is taken for over
};
int roda_cuda_double_seed(int fault, int which);
}
