// What goes wrong with NCCL, by faults that its double injects: everything ends, and says why.
#include <gtest/gtest.h>

#include <barrier>

#include "tests/transports/nccl/ranks.h"

namespace roda::nccl_test {
namespace {

using transport_test::run_ranks;

constexpr std::uint64_t kLimit = 300'000'000;  // ns; what waits for it in vain fails by it
const roda_transport* table() { return roda_nccl_transport(); }

// Two ranks whose second allreduce is disturbed.
template <typename Body>
void after_one_allreduce(const char* gpu_timeout, Body&& body) {
  device();
  Board board;
  std::barrier both(2);
  run_ranks(2, [&](int rank) {
    Knobs knobs = knobs_of(rank);
    knobs["RODA_GPU_TIMEOUT_SECONDS"] = gpu_timeout;
    Floats data(rank, std::vector<float>(1000, 1.0f));  // goes after the group, which may use it until its end
    Member member(table(), board, rank, 2, knobs);
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    const End first = allreduce(member, data);
    ASSERT_EQ(first.code, RODA_OK) << first.text;
    EXPECT_EQ(data.read()[999], 2.0f);
    body(rank, member, data, both);
    both.arrive_and_wait();
  });
}

TEST(NcclFaults, AnAsynchronousErrorEndsTheRequestAndTheGroup) {
  const Setting fault("RODA_NCCL_DOUBLE_ASYNC_ERROR", "r1:2:6:NET/Socket : Connection closed by remote peer");
  after_one_allreduce("60", [](int rank, Member& member, Floats& data, std::barrier<>& both) {
    roda_request* request = nullptr;
    ASSERT_EQ(start_allreduce(member, data.data(), data.count(), &request).code, RODA_OK);
    if (rank == 0) {
      // As the engine does once the other rank has told its failure.
      both.arrive_and_wait();
      member.abort(RODA_ERR_PEER, 101, "rank 101 failed");
      const End end = finish(member, request);
      EXPECT_EQ(end.code, RODA_ERR_PEER);
      EXPECT_EQ(end.rank, 101);
      return;
    }
    const End end = finish(member, request);
    both.arrive_and_wait();
    EXPECT_EQ(end.code, RODA_ERR_PEER);
    EXPECT_TRUE(says(end.text, {"group test", "remote process exited", "Connection closed by remote peer",
                                "look at the others' messages first"}))
        << end.text;
    // Sticky, by the first cause.
    EXPECT_EQ(start_allreduce(member, data.data(), data.count(), &request).text, end.text);
    while (!table()->quiesced(member.group(), data.data(), data.count() * sizeof(float))) std::this_thread::yield();
  });
}

TEST(NcclFaults, AHangEndsByTheLimit) {
  const Setting fault("RODA_NCCL_DOUBLE_HANG", "2");
  after_one_allreduce("0.3", [](int, Member& member, Floats& data, std::barrier<>&) {
    const End end = allreduce(member, data);
    EXPECT_EQ(end.code, RODA_ERR_TIMEOUT);
    EXPECT_TRUE(says(end.text, {"ALLREDUCE over group test", "300 ms", "NCCL_DEBUG=INFO"})) << end.text;
  });
}

TEST(NcclFaults, AnAbortThatTakesLongHoldsNobodyUp) {
  const Setting hang("RODA_NCCL_DOUBLE_HANG", "2");
  const Setting slow("RODA_NCCL_DOUBLE_ABORT_MS", "400");
  after_one_allreduce("60", [](int, Member& member, Floats& data, std::barrier<>&) {
    roda_request* request = nullptr;
    ASSERT_EQ(start_allreduce(member, data.data(), data.count(), &request).code, RODA_OK);
    member.abort(RODA_ERR_ABORTED, -1, "enough");
    const End end = finish(member, request);
    EXPECT_EQ(end.code, RODA_ERR_ABORTED);
    EXPECT_EQ(end.text, "enough");
  });
}

// An abort that NCCL never comes back from: the group and the context go without it.
TEST(NcclFaults, AnAbortThatHangsIsLeftBehind) {
  const Setting hang("RODA_NCCL_DOUBLE_HANG", "2");
  const Setting slow("RODA_NCCL_DOUBLE_ABORT_MS", "20000");
  after_one_allreduce("60", [](int, Member& member, Floats& data, std::barrier<>&) {
    roda_request* request = nullptr;
    ASSERT_EQ(start_allreduce(member, data.data(), data.count(), &request).code, RODA_OK);
    member.abort(RODA_ERR_ABORTED, -1, "enough");
    EXPECT_EQ(finish(member, request).code, RODA_ERR_ABORTED);
    data.keep();
  });
}

TEST(NcclFaults, AFailureToFormSaysWhatNcclSaid) {
  device();
  const Setting fault("RODA_NCCL_DOUBLE_INIT_ERROR", "2:Error while creating shared memory segment /dev/shm/nccl-x");
  Board board;
  run_ranks(2, [&](int rank) {
    Member member(table(), board, rank, 2, knobs_of(rank));
    EXPECT_EQ(member.form(), RODA_ERR_SYSTEM);
    EXPECT_TRUE(says(member.text(), {"group test", "unhandled system error", "/dev/shm/nccl-x", "--shm-size"}))
        << member.text();
  });
}

TEST(NcclFaults, ARankThatNeverFormsIsGivenUp) {
  device();
  const Setting fault("RODA_NCCL_DOUBLE_INIT_HANG", "1");
  Board board;
  run_ranks(2, [&](int rank) {
    Member member(table(), board, rank, 2, knobs_of(rank), kLimit);
    EXPECT_EQ(member.form(), RODA_ERR_TIMEOUT);
    EXPECT_TRUE(says(member.text(), {"did not form in 300 ms", "NCCL_DEBUG=INFO"})) << member.text();
  });
}

TEST(NcclFaults, TwoRanksOnOneGpuAreNamedOnBoth) {
  device();
  Board board;
  run_ranks(2, [&](int rank) {
    Member member(table(), board, rank, 2, knobs_of(0));
    EXPECT_EQ(member.form(), RODA_ERR_PRECONDITION);
    EXPECT_TRUE(says(member.text(), {"rank 100 and rank 101", "same GPU", "torch.cuda.set_device(hvd.local_rank())"}))
        << member.text();
  });
}

TEST(NcclFaults, WhatOneRankLacksAllAreTold) {
  device();
  Board board;
  run_ranks(3, [&](int rank) {
    Knobs knobs = knobs_of(rank);
    if (rank == 1) knobs["RODA_NCCL_LIBRARY"] = "libnccl-of-nowhere.so";
    Member member(table(), board, rank, 3, knobs);
    EXPECT_EQ(member.form(), RODA_ERR_UNAVAILABLE);
    EXPECT_EQ(member.error_rank(), 101);
    EXPECT_TRUE(says(member.text(), {"rank 101 on", "libnccl-of-nowhere.so"})) << member.text();
  });
}

}  // namespace
}  // namespace roda::nccl_test
