// NCCL as a transport: native collectives between GPUs, aborted by ncclCommAbort when something fails. Both NCCL and
// the CUDA driver are opened at run time; see docs/transports.md.
//
// It offers no messages: NCCL's send and receive have no tags, match in the order in which they were begun, and hold
// their stream until the peer comes. The contract's messages match by tag in any order, which can't be made of these
// without a second channel. Inside a collective (all-to-all, uneven shares) NCCL's send and receive do the work.
#pragma once

#include <roda/abi/transport.h>
#include <roda/sdk/settings.hpp>

#include <string>

namespace roda::nccl {

// What can be set, read once for each context.
struct Settings {
  std::string library, cuda_library;
  bool may_register, may_share;
};

inline constexpr sdk::Setting<Settings> kSettings[] = {
    {&Settings::library, "RODA_NCCL_LIBRARY", "path", "", "NCCL to open; empty: searched for."},
    {&Settings::cuda_library, "RODA_TEST_CUDA_LIBRARY", "path", "", "CUDA driver to open; empty: the system's."},
    {&Settings::may_register, "RODA_TEST_NCCL_REGISTER", "", "1", 0, 1, "0: buffers are not registered with NCCL."},
    {&Settings::may_share, "RODA_TEST_NCCL_SHARED_GPU", "", "0", 0, 1,
     "1: ranks may share a GPU, each as on a host of its own to NCCL, which is slow."},
};

}  // namespace roda::nccl

// For programs that link the transport instead of loading it.
const roda_transport* roda_nccl_transport();
