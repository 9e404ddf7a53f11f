// A ring of the shm transport that its producer filled with anything: the consumer stays inside, and comes to an end.
#include "tests/fuzz/fuzz.h"
#include "transports/shm/segment.h"

namespace roda::fuzz {
namespace {

constexpr std::uint32_t kRingBytes = 1024;

struct Ring {
  shm::RingHeader header{};
  alignas(shm::kLine) std::byte data[kRingBytes] = {};
};

}  // namespace

std::vector<std::string> seeds() {
  std::string all;
  for (const std::size_t payload : {0, 100, 400}) {
    Ring ring;
    shm::RingProducer producer(&ring.header, ring.data, kRingBytes);
    while (shm::Record* record = producer.reserve(payload)) {
      record->kind = shm::RecordKind::kEager;
      producer.publish(record);
    }
    const std::string bytes(reinterpret_cast<const char*>(ring.data), kRingBytes);
    all += number(static_cast<std::uint16_t>(ring.header.tail.load())) + bytes;
  }
  return {all, all.substr(0, kRingBytes + 2)};
}

}  // namespace roda::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace roda;
  fuzz::Input input(data, size);
  fuzz::Ring ring;
  shm::RingConsumer consumer(&ring.header, ring.data, fuzz::kRingBytes);
  std::uint64_t taken = 0;
  while (input) {
    ring.header.tail.fetch_add(input.number<std::uint16_t>());
    const auto bytes = input.bytes(fuzz::kRingBytes);
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::uint8_t*>(ring.data));
    while (const shm::Record* record = consumer.front()) {
      if (!consumer.is_sane(*record)) return 0;
      const auto* payload = reinterpret_cast<const std::uint8_t*>(shm::payload_of(record));
      for (std::uint32_t i = 0; i < record->payload; ++i) taken += payload[i];
      consumer.pop(*record);
      fuzz::require(ring.header.head.load() <= ring.header.tail.load(), "nothing is read that was not written");
    }
  }
  return taken == UINT64_MAX ? -1 : 0;
}
