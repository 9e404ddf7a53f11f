// Connections are made by the first message: tests that begin with them talk once. And how many there are.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "tests/transports/connections.h"
#include "tests/transports/thread_ranks.h"

namespace roda::transport_test {

// A byte each way with every other member, all of whom do the same.
inline void talk(Member& member, int rank, int size) {
  std::vector<char> in(static_cast<std::size_t>(size));
  std::vector<roda_request*> requests;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    roda_request *sent = nullptr, *received = nullptr;
    ASSERT_EQ(member.send(peer, 0, "t", 1, &sent), RODA_OK) << member.text();
    ASSERT_EQ(member.receive(peer, 0, &in[static_cast<std::size_t>(peer)], 1, &received), RODA_OK) << member.text();
    requests.insert(requests.end(), {sent, received});
  }
  for (roda_request* request : requests) ASSERT_EQ(member.wait(request), RODA_OK) << member.text();
}

}  // namespace roda::transport_test
