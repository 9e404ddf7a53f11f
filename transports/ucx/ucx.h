// UCX as a transport: messages, signals and one-sided access over whatever UCX finds (shared memory, TCP, RoCE,
// InfiniBand, CUDA); UCX_TLS and UCX_NET_DEVICES choose. See docs/transports.md.
#pragma once

#include <roda/abi/transport.h>

// For programs that link the transport instead of loading it.
const roda_transport* roda_ucx_transport();
