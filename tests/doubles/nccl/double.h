// A DOUBLE of NCCL, for tests without a GPU: a shared library with the functions of libnccl.so.2 that this project
// calls, over the CUDA double (tests/doubles/cuda) and shared memory of one host. Data really move between processes,
// in stream order. It proves our logic only: nothing that runs on it says anything about NCCL or a GPU.
//
// Settings, by environment; where a rank is named, `rR:` in front restricts one to the communicators' rank R:
//   RODA_NCCL_DOUBLE_VERSION     what it says it is; default 22809
//   RODA_NCCL_DOUBLE_INIT_ERROR  [rR:]RESULT:TEXT  forming ends with that result and last-error text
//   RODA_NCCL_DOUBLE_INIT_HANG   [rR:]1            forming never ends
//   RODA_NCCL_DOUBLE_ASYNC_ERROR [rR:]N:RESULT:TEXT  the Nth operation (from 1) hangs, and the error appears
//   RODA_NCCL_DOUBLE_HANG        [rR:]N            the Nth operation hangs
//   RODA_NCCL_DOUBLE_ABORT_MS    an abort takes that long
//   RODA_NCCL_DOUBLE_LAUNCH_US   a call of an operation takes that long (500 for the first of a communicator, which
//                                connects; 0 for others)
//   RODA_NCCL_DOUBLE_REGISTER_ERROR [rR:]N          the Nth registration of a communicator (from 1) fails
//   RODA_NCCL_DOUBLE_WINDOWS     0: no windows, as where GPUs don't reach each other's memory
// For tests in the same process it exports the functions below.
#pragma once

#include "transports/nccl/library.h"

extern "C" {
// Since the process began, over all communicators.
struct roda_nccl_double_registrations {
  int made, undone;
  int stale;          // undone, or left to a communicator's end, when the memory was gone already, or never made
  int left;           // at the end of a communicator that was not aborted
  int used;           // allreduces, allgathers and reduce-scatters whose input and output lay in registered memory
  int halves;         // those of which one of the two did
  int communicators;  // that are there now
  int windows;        // of those that were made
};
void roda_nccl_double_count(roda_nccl_double_registrations* counts);
// Likewise: collectives that were called, those that a stream has come to, and the input of the allreduces and
// reduce-scatters among these.
struct roda_nccl_double_collectives {
  unsigned long long called, started, started_bytes, all_to_alls;
};
void roda_nccl_double_count_collectives(roda_nccl_double_collectives* counts);
}
