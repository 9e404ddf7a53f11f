// The transport whose ranks are threads of one process: for tests, with no launcher, sockets or helper threads.
//
// Groups find each other by name and generation in a table of the process; the exchange is not used. Messages of up to
// kEagerBytes complete at once, longer ones when they are received, by one copy from the sender's memory.
//
// Settings, read when a context is created (give each rank its own roda_host to make only one rank misbehave):
//   RODA_LOOP_DELAY_US     messages become visible to the receiver this much later
//   RODA_LOOP_FAIL_AFTER   this many operations work, every later one of the context fails with RODA_ERR_PEER
//   RODA_LOOP_AGAIN_EVERY  every n-th attempt to send or receive is answered with RODA_AGAIN
#pragma once

#include <roda/abi/transport.h>

// For programs that link the transport instead of loading it.
const roda_transport* roda_loop_transport();
