// Control messages of a pair are taken in their order, whatever order they come in; endpoints are read right.
#include "transports/ucx/wire.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

namespace roda::ucx {
namespace {

ControlHeader header(std::uint64_t sequence) { return {Word::kSignal, 1, sequence, sequence * 10, 0, 0}; }

TEST(Inbox, EveryOrderOfArrivalIsBroughtIntoOrder) {
  std::array<std::uint64_t, 5> order{0, 1, 2, 3, 4};
  do {
    Inbox inbox;
    std::vector<std::uint64_t> taken;
    for (const std::uint64_t sequence : order) {
      const std::string data(sequence, 'd');
      inbox.arrive(header(sequence), data.data(), data.size(),
                   [&](const ControlHeader& next, const char* payload, std::size_t bytes) {
                     EXPECT_EQ(next.a, next.sequence * 10);
                     EXPECT_EQ(std::string(payload, bytes), std::string(next.sequence, 'd'));
                     taken.push_back(next.sequence);
                   });
    }
    EXPECT_EQ(taken, (std::vector<std::uint64_t>{0, 1, 2, 3, 4}));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Inbox, AMessageThatCameBeforeIsDropped) {
  Inbox inbox;
  int taken = 0;
  const auto take = [&](const ControlHeader&, const char*, std::size_t) { ++taken; };
  inbox.arrive(header(0), nullptr, 0, take);
  inbox.arrive(header(0), nullptr, 0, take);
  EXPECT_EQ(taken, 1);
}

bool is(const std::string& description, bool some_buffer, bool some_direct) {
  const Lanes lanes = lanes_of(description);
  return lanes.some_buffer == some_buffer && lanes.some_direct == some_direct;
}

TEST(Lanes, TcpKeepsBytesAndSharedMemoryDoesNot) {
  const std::string tcp =
      "#                 lane[0]:  1:tcp/lo.0 md[1]                -> md[1]/tcp/sysdev[255] am am_bw#0 keepalive\n";
  const std::string sysv =
      "#                 lane[0]:  3:sysv/memory.0 md[2]           -> md[2]/sysv/sysdev[255] am am_bw#0 keepalive\n";
  const std::string rc = "#                 lane[0]:  1:rc_verbs/rxe1:1.0 md[0]  -> md[0]/ib/sysdev[0] rma_bw#0 am\n";
  EXPECT_TRUE(is("#\n# UCP endpoint\n" + tcp, true, false));
  EXPECT_TRUE(is("#\n# UCP endpoint\n" + sysv, false, true));
  EXPECT_TRUE(is(sysv + rc, false, true));
  EXPECT_TRUE(is(sysv + tcp, true, true));
  EXPECT_FALSE(lanes_of(sysv + tcp).meets_by_datagrams);
}

TEST(Lanes, DatagramsThatOnlyWireUpKeepNothing) {
  const std::string rc = "#  lane[0]:  1:rc_verbs/rxe1:1.0 md[0]  -> md[0]/ib/sysdev[0] rma_bw#0 am\n";
  const std::string ud = "#  lane[1]:  2:ud_verbs/rxe1:1.0 md[0]  -> md[0]/ib/sysdev[0]";
  for (const std::string uses : {" wireup\n", " keepalive wireup\n", " wireup keepalive \n"}) {
    EXPECT_TRUE(is(rc + ud + uses, false, true)) << uses;
    EXPECT_TRUE(lanes_of(rc + ud + uses).meets_by_datagrams) << uses;
  }
  EXPECT_TRUE(is(rc + ud + " am wireup\n", true, true));
  EXPECT_FALSE(lanes_of(rc + ud + " am wireup\n").meets_by_datagrams);
  EXPECT_TRUE(is(ud + " wireup\n", true, false));
}

TEST(Lanes, WhatIsNotUnderstoodIsTakenToBuffer) {
  EXPECT_TRUE(is(std::string(), true, false));
  EXPECT_TRUE(is(std::string("# lane[0]: "), true, false));
  EXPECT_TRUE(is(std::string("# lane[0"), true, false));
  EXPECT_TRUE(is(std::string("# lane[0]: 1:newfabric/x md[0]"), true, false));
}

}  // namespace
}  // namespace roda::ucx
