// The transport whose ranks are threads of one process: for tests, with no launcher, sockets or helper threads.
//
// Groups find each other by name and generation in a table of the process; the exchange is not used. Messages of up to
// kEagerBytes complete at once, longer ones when they are received, by one copy from the sender's memory.
//
// Faults and delays on command: settings.h.
#pragma once

#include <roda/abi/transport.h>

// For programs that link the transport instead of loading it.
const roda_transport* roda_loop_transport();
