// A ring of records between one producer and one consumer in different processes. No system calls, no locks.
//
// Memory order: the producer fills a record with plain stores and publishes it by a release store of `tail`; the
// consumer acquires `tail`, reads the record with plain loads and gives its bytes back by a release store of `head`,
// which the producer acquires before it writes there again. Waking a sleeper is a matter of its own: Peer::wake().
#pragma once

#include <cstddef>
#include <cstdint>

#include "transports/shm/layout.h"

namespace roda::shm {

enum class RecordKind : std::uint32_t {
  kSkip = 0,  // filler up to the end of the ring
  kEager,     // a whole message
  kAnnounce,  // a long message that waits in the sender's memory
  kClear,     // to the owner of request `to`: stream the data to request `from`
  kData,      // a piece for request `to`
  kFinish,    // to the owner of request `to`: the peer has all it needs
  kGet,       // stream what lies in the window to request `from`
  kPut,       // wants to write into the window; answered by kClear
  kRefuse,    // to the owner of request `to`: a kGet or kPut outside the window
};

struct Record {
  RecordKind kind;
  std::uint32_t payload;  // bytes that follow
  std::uint64_t tag;
  std::uint64_t total;    // bytes of the whole message
  std::uint64_t address;  // in the sender's address space or segment, or an offset in a window
  std::uint32_t from;     // the sender's request
  std::uint32_t to;       // the receiver's request
  std::uint32_t slot;     // window; kAnnounce: 1 when the address is an offset in the sender's segment
  std::uint32_t reserved;
};
static_assert(sizeof(Record) == 48);

// A record with its payload takes whole lines.
inline constexpr std::size_t record_bytes(std::size_t payload) {
  return Layout::round_up(sizeof(Record) + payload, kLine);
}

class RingProducer {
 public:
  RingProducer() = default;
  RingProducer(RingHeader* header, std::byte* data, std::uint32_t bytes)
      : header_(header), data_(data), bytes_(bytes) {}

  // Room for a record with its payload; null when the ring is full. Nothing is visible before publish().
  Record* reserve(std::size_t payload);
  void publish(const Record* record);
  // Longest payload that is sure to fit into an empty ring, wherever its end is.
  std::size_t max_payload() const { return bytes_ / 2 - sizeof(Record); }
  bool has_room(std::size_t payload);

 private:
  bool has_bytes(std::size_t bytes);
  std::size_t bytes_needed(std::size_t payload) const;

  RingHeader* header_ = nullptr;
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t tail_ = 0;
  std::uint64_t head_seen_ = 0;
};

class RingConsumer {
 public:
  RingConsumer() = default;
  RingConsumer(RingHeader* header, std::byte* data, std::uint32_t bytes)
      : header_(header), data_(data), bytes_(bytes) {}

  bool empty() const { return header_->tail.load(std::memory_order_acquire) == head_; }
  // The next record, null when there is none. It stays valid until pop().
  const Record* front();
  // Lengths are the producer's: false when they don't fit the ring, or what was written of it, which only a broken peer
  // sends.
  bool is_sane(const Record& record) const;
  void pop(const Record& record);

 private:
  RingHeader* header_ = nullptr;
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t head_ = 0;
};

inline const std::byte* payload_of(const Record* record) {
  return reinterpret_cast<const std::byte*>(record) + sizeof(Record);
}
inline std::byte* payload_of(Record* record) { return reinterpret_cast<std::byte*>(record) + sizeof(Record); }

}  // namespace roda::shm
