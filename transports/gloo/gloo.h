// Gloo as a transport: the CPU default that users name. Groups of one host talk over loopback, others over the
// interface that HOROVOD_GLOO_IFACE names or the host's own; see docs/transports.md.
#pragma once

#include <roda/abi/transport.h>

// For programs that link the transport instead of loading it.
const roda_transport* roda_gloo_transport();
