// How the transport uses devices and streams, over the doubles of NCCL and CUDA.
#include <gtest/gtest.h>

#include <numeric>

#include "plugins/base/cuda/types.h"
#include "tests/doubles/cuda/double.h"
#include "tests/transports/nccl/ranks.h"
#include "transports/nccl/group.h"

extern "C" {
roda::cuda::Result cuStreamBeginCapture_v2(roda::cuda::Stream stream, int mode);
roda::cuda::Result cuStreamEndCapture(roda::cuda::Stream stream, void** graph);
}

namespace roda::nccl_test {
namespace {

using transport_test::run_ranks;

const roda_transport* table() { return roda_nccl_transport(); }

// A group of two ranks, formed.
template <typename Body>
void in_pairs(Body&& body) {
  device();
  Board board;
  run_ranks(2, [&](int rank) {
    Member member(table(), board, rank, 2, knobs_of(rank));
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    body(rank, member);
  });
}

// First: no other test has made contexts yet.
TEST(NcclDevices, OnlyTheRanksOwnGetContexts) {
  in_pairs([](int, Member&) {});
  EXPECT_EQ(roda_cuda_double_contexts(), 3u);
}

TEST(NcclDevices, AverageIsNative) {
  in_pairs([](int rank, Member& member) {
    Floats data(rank, std::vector<float>(777, rank == 0 ? 1.0f : 4.0f));
    const End end = allreduce(member, data, RODA_AVERAGE);
    EXPECT_EQ(end.code, RODA_OK) << end.text;
    EXPECT_EQ(data.read(), std::vector<float>(777, 2.5f));
  });
}

// What the caller has put on its stream before is done before, and what comes after the end sees the result.
TEST(NcclDevices, CollectivesFollowTheCallersStream) {
  const Setting slow("RODA_CUDA_DOUBLE_DELAY_US", "2000");
  in_pairs([](int rank, Member& member) {
    void* stream = nullptr;
    ASSERT_EQ(device().stream_create(rank, &stream, nullptr), RODA_OK);
    Floats data(rank, std::vector<float>(5000, -1.0f)), source(rank, std::vector<float>(5000, 3.0f + rank));
    device().copy(data.data(), source.data(), 5000 * sizeof(float), stream, nullptr);
    roda_request* request = nullptr;
    const End started = start_allreduce(member, data.data(), data.count(), &request, RODA_SUM, stream);
    ASSERT_EQ(started.code, RODA_OK) << started.text;
    EXPECT_EQ(finish(member, request).code, RODA_OK);
    EXPECT_EQ(data.read(), std::vector<float>(5000, 7.0f));
    device().stream_destroy(stream);
  });
}

// What the caller puts on its stream once the collective lies there comes after it, without a wait of the host.
TEST(NcclDevices, WorkBehindACollectiveNeedsNoHost) {
  const Setting slow("RODA_NCCL_DOUBLE_LAUNCH_US", "3000");
  in_pairs([](int rank, Member& member) {
    void *stream = nullptr, *event = nullptr;
    ASSERT_EQ(device().stream_create(rank, &stream, nullptr), RODA_OK);
    Floats data(rank, std::vector<float>(5000, 1.0f + rank)), copy(rank, std::vector<float>(5000));
    roda_request* request = nullptr;
    ASSERT_EQ(start_allreduce(member, data.data(), data.count(), &request, RODA_SUM, stream).code, RODA_OK);
    int code = RODA_OK;
    while ((code = table()->request_on_stream(member.group(), request, nullptr)) == RODA_IN_PROGRESS) {
      table()->progress(member.context());
    }
    EXPECT_EQ(code, RODA_OK);
    device().copy(copy.data(), data.data(), 5000 * sizeof(float), stream, nullptr);
    ASSERT_EQ(device().event_record(stream, &event, nullptr), RODA_OK);
    while (device().event_test(event, nullptr) == RODA_IN_PROGRESS) std::this_thread::yield();
    EXPECT_EQ(copy.read(), std::vector<float>(5000, 3.0f));
    device().event_release(event);
    EXPECT_EQ(finish(member, request).code, RODA_OK);
    device().stream_destroy(stream);
  });
}

// A caller that gives up a registered buffer only when it is quiet never waits for a call of NCCL's.
TEST(NcclDevices, ARegisteredBufferIsNotQuietWhileACallIsUnderWay) {
  const Setting slow("RODA_NCCL_DOUBLE_LAUNCH_US", "20000");
  in_pairs([](int rank, Member& member) {
    Floats kept(rank, std::vector<float>(1000, 1.0f)), other(rank, std::vector<float>(1000, 1.0f));
    roda_memory memory{};
    memory.struct_size = sizeof memory;
    memory.kind = RODA_MEMORY_CUDA;
    memory.device = rank;
    memory.address = kept.data();
    memory.length = kept.count() * sizeof(float);
    roda_error error = make_error();
    ASSERT_EQ(table()->memory_register(member.group(), &memory, &error), RODA_OK) << error.message;
    ASSERT_EQ(allreduce(member, kept).code, RODA_OK);
    const auto is_quiet = [&] { return table()->quiesced(member.group(), memory.address, memory.length) != 0; };
    while (!is_quiet()) table()->progress(member.context());
    bool was_seen = false;
    for (int round = 0; round < 5; ++round) {
      roda_request* request = nullptr;
      ASSERT_EQ(start_allreduce(member, other.data(), other.count(), &request).code, RODA_OK);
      const bool was_quiet = is_quiet();
      const bool is_under_way = table()->request_on_stream(member.group(), request, nullptr) == RODA_IN_PROGRESS;
      EXPECT_FALSE(is_under_way && was_quiet);
      was_seen = was_seen || is_under_way;
      ASSERT_EQ(finish(member, request).code, RODA_OK);
    }
    EXPECT_TRUE(was_seen);
    while (!is_quiet()) table()->progress(member.context());
    table()->memory_deregister(member.group(), &memory);
  });
}

TEST(NcclDevices, HostMemoryIsRefused) {
  in_pairs([](int, Member& member) {
    std::vector<float> data(10);
    roda_request* request = nullptr;
    const End end = start_allreduce(member, data.data(), data.size(), &request);
    EXPECT_EQ(end.code, RODA_ERR_INVALID);
    EXPECT_TRUE(says(end.text, {"ALLREDUCE over group test", "in host memory"})) << end.text;
  });
}

TEST(NcclDevices, MemoryOfAnotherDeviceIsRefused) {
  in_pairs([](int rank, Member& member) {
    Floats data(1 - rank, std::vector<float>(10));
    roda_request* request = nullptr;
    const End end = start_allreduce(member, data.data(), data.count(), &request);
    EXPECT_EQ(end.code, RODA_ERR_INVALID);
    EXPECT_TRUE(says(end.text, {rank == 0 ? "lies on device 1" : "lies on device 0", "torch.cuda.set_device"}))
        << end.text;
  });
}

// `body` gets the stream that records a graph, on each of two ranks.
template <typename Body>
void while_recording(Body&& body) {
  in_pairs([&](int rank, Member& member) {
    void *stream = nullptr, *graph = nullptr;
    ASSERT_EQ(device().stream_create(rank, &stream, nullptr), RODA_OK);
    Floats data(rank, std::vector<float>(10, 1.0f));
    ASSERT_EQ(cuStreamBeginCapture_v2(static_cast<cuda::Stream>(stream), cuda::kCaptureGlobal), 0);
    body(member, data, stream);
    EXPECT_EQ(cuStreamEndCapture(static_cast<cuda::Stream>(stream), &graph), 0) << "it was spoilt";
    device().stream_destroy(stream);
  });
  EXPECT_EQ(roda_cuda_double_captured(), 0u);
}

TEST(NcclDevices, AStreamThatRecordsAGraphIsRefused) {
  while_recording([](Member& member, Floats& data, void* stream) {
    roda_request* request = nullptr;
    End end = start_allreduce(member, data.data(), data.count(), &request, RODA_SUM, stream);
    if (end.code == RODA_OK) end = finish(member, request);
    EXPECT_EQ(end.code, RODA_ERR_UNSUPPORTED);
    EXPECT_TRUE(says(end.text, {"ALLREDUCE over group test", "CUDA graph"})) << end.text;
  });
}

TEST(NcclDevices, AGraphOnAnotherStreamForbidsNothing) {
  while_recording([](Member& member, Floats& data, void*) {
    const End end = allreduce(member, data);
    EXPECT_EQ(end.code, RODA_OK) << end.text;
    EXPECT_EQ(data.read(), std::vector<float>(10, 2.0f));
  });
}

// The user's own kernel failed before: it is not NCCL's doing, and the text says so.
TEST(NcclDevices, AnErrorThatWasThereBeforeIsNotOurs) {
  device();
  Board board;
  Member member(table(), board, 0, 1, knobs_of(0));
  ASSERT_EQ(member.form(), RODA_OK) << member.text();
  Floats data(0, std::vector<float>(10));
  roda_cuda_double_set_error(cuda::kIllegalAddress);
  const End end = allreduce(member, data);
  member.leave();
  roda_cuda_double_set_error(cuda::kSuccess);
  EXPECT_EQ(end.code, RODA_ERR_SYSTEM);
  EXPECT_TRUE(says(end.text, {"was not begun: the GPU had failed before it", "CUDA_ERROR_ILLEGAL_ADDRESS",
                              "CUDA_LAUNCH_BLOCKING=1"}))
      << end.text;
}

TEST(NcclCards, DifferentVersionsAreNamed) {
  std::vector<nccl::Card> cards(3);
  for (std::size_t i = 0; i < cards.size(); ++i) {
    cards[i].version = i == 2 ? 22707 : 22105;
    cards[i].gpu.bytes[0] = static_cast<unsigned char>(i);
    std::strcpy(cards[i].host, "node7");
  }
  try {
    nccl::check_cards(cards, {4, 5, 6});
    FAIL() << "accepted";
  } catch (const sdk::Failure& failure) {
    EXPECT_EQ(failure.rank(), 6);
    EXPECT_TRUE(says(failure.what(), {"rank 4 has 2.21.5", "rank 6 has 2.27.7", "node7"})) << failure.what();
  }
}

}  // namespace
}  // namespace roda::nccl_test
