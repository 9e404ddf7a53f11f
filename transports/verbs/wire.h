// What ranks tell each other: cards while the group forms, records in sent messages afterwards. Hosts of one byte
// order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "transports/verbs/device.h"
#include "transports/verbs/settings.h"

namespace roda::verbs {

inline constexpr std::uint32_t kMagic = 0x62727600;  // "\0vrb"
inline constexpr std::uint32_t kWireVersion = 1;

// The first card. What may differ is settled as the least of all members.
struct Hello {
  std::uint32_t magic = kMagic;
  std::uint32_t version = kWireVersion;
  std::uint64_t host = 0;  // equal on ranks of one host
  std::uint64_t eager_bytes = 0;
  std::uint64_t stripe_bytes = 0;
  std::uint32_t credits = 0;
  std::int32_t rails = 0;
};

// The second card: kMaxRails addresses, then one of these for each member and rail.
struct QueuePair {
  std::uint32_t number = 0;
  std::uint32_t first_packet = 0;
};

enum class Kind : std::uint8_t {
  kMessage,   // with its data
  kAnnounce,  // a long message was sent: tag, bytes, id of the sender's request
  kReady,     // a receive is posted: tag, bytes, id of the receiver's request, where to write
  kRefuse,    // to kReady: the message sent has another length: id, bytes
  kDrop,      // to kAnnounce: the receive has another length: id
  kSignal,    // id: index, tag: value
  kWindow,    // id: slot, where it lies
  kCredit,    // nothing but what every record returns
  kBye,       // no more from here
};

// Every sent message begins with one.
struct Record {
  Kind kind = Kind::kCredit;
  std::uint8_t reserved = 0;
  std::uint16_t credits = 0;  // buffers that the sender of the record has emptied
  std::uint32_t id = 0;
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;
  std::array<std::uint32_t, kMaxRails> keys{};
};
static_assert(sizeof(Record) == 48);

}  // namespace roda::verbs
