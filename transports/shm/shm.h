// The transport between ranks of one host: shared memory, and the kernel's copy between processes. See
// docs/transports.md.
#pragma once

#include <roda/abi/transport.h>

// For programs that link the transport instead of loading it. Lives as long as the process.
const roda_transport* roda_shm_transport();
