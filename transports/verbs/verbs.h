// The transport over libibverbs: RC queue pairs of InfiniBand and RoCE devices. See docs/transports.md.
#pragma once

#include <roda/abi/transport.h>

// For programs that link the transport instead of loading it. Lives as long as the process.
const roda_transport* roda_verbs_transport();
