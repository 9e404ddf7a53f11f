// Messages over our own sockets: what spans hosts when there is no communication library. See docs/transports.md.
#pragma once

#include <roda/abi/transport.h>

// For programs that link the transport instead of loading it. Lives as long as the process.
const roda_transport* roda_tcp_transport();
