#include "transports/shm/segment.h"

#include <gtest/gtest.h>

namespace roda::shm {
namespace {

constexpr std::uint32_t kBytes = 1024;

class Ring : public testing::Test {
 protected:
  RingHeader header{};
  alignas(kLine) std::byte data[kBytes] = {};
  RingProducer producer{&header, data, kBytes};
  RingConsumer consumer{&header, data, kBytes};
};

TEST_F(Ring, RecordsComeInOrderAllTheWayRound) {
  for (std::uint64_t i = 0; i < 100; ++i) {
    Record* record = producer.reserve(200);
    ASSERT_NE(record, nullptr);
    record->kind = RecordKind::kEager;
    record->tag = i;
    producer.publish(record);
    const Record* got = consumer.front();
    ASSERT_NE(got, nullptr);
    EXPECT_TRUE(consumer.is_sane(*got));
    EXPECT_EQ(got->tag, i);
    consumer.pop(*got);
    EXPECT_EQ(consumer.front(), nullptr);
  }
}

// A broken peer: a record of more bytes than it has written is believed no more than one that leaves the ring.
TEST_F(Ring, ARecordBeyondWhatWasWrittenIsNotSane) {
  for (const RecordKind kind : {RecordKind::kEager, RecordKind::kSkip}) {
    reinterpret_cast<Record*>(data)->kind = kind;
    for (const std::uint32_t payload : {kBytes, 200u}) {
      reinterpret_cast<Record*>(data)->payload = payload;
      header.tail.store(kLine);
      const Record* record = consumer.front();
      ASSERT_NE(record, nullptr);
      EXPECT_FALSE(consumer.is_sane(*record)) << payload;
    }
  }
}

}  // namespace
}  // namespace roda::shm
