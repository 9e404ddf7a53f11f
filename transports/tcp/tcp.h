// Messages over our own sockets: what spans hosts when there is no communication library. See docs/transports.md.
#pragma once

#include <roda/abi/transport.h>
#include <roda/sdk/settings.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "plugins/base/address.h"
#include "plugins/base/hmac.h"

namespace roda::tcp_transport {

// What travels on a connection once both ends have proved the group's secret.
//
// A frame is a header and `length` bytes of payload. Messages are matched by their first frame, which always goes on
// lane 0 and so keeps their order: kEager (with the data) or kAnnounce. The data of an announced message follow in
// kData frames on any lane, addressed to the receive, once that is known to the sender: by kReady, which a long receive
// sends when it is posted, or by kClear, the answer to an announcement. A short message is announced as well when its
// sender has no window left. Nothing is ever sent that has no place to go, so memory is bounded and no message blocks
// another's way.
//
// Members may be trusted to be members, not to be sane: every field is checked before it is used.
static_assert(std::endian::native == std::endian::little, "headers travel as they lie in memory");

inline constexpr std::uint32_t kMagic = 0x70637472;  // "rtcp"
inline constexpr std::uint32_t kWireVersion = 3;
inline constexpr std::uint16_t kService = 3;  // in the handshake; 1 and 2 are the core's

inline constexpr std::size_t kMostLanes = 16;
inline constexpr std::size_t kMostEager = 1 << 20;
inline constexpr std::size_t kMostChunk = 16 << 20;
inline constexpr std::size_t kMostText = 1000;
// Unfinished sends to one peer, more than any plan has: their announcements take memory there.
inline constexpr std::size_t kMostSends = 4096;

enum class Kind : std::uint32_t {
  kEager = 1,  // a: tag; payload: the message
  kAnnounce,   // a: tag, b: length of the message, c: the send's id
  kReady,      // a: tag, b: length expected, c: the receive's id
  kClear,      // a: the send's id, c: the receive's id
  kRefuse,     // a: the send's id; the receiver expected another length
  kData,       // a: the receive's id, b: offset, c: the send's id; payload: data
  kCredit,     // nothing but the credit
  kLeave,      // the sender is done with the group
  kAbort,      // a: code, b: world rank it originates from; payload: text
};

struct Header {
  Kind kind{};
  std::uint32_t length = 0;
  std::uint32_t credit = 0;  // bytes of the window that the receiver of eager messages gives back
  std::uint32_t reserved = 0;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t c = 0;
};
static_assert(sizeof(Header) == 40);

// What one end of a connection knows of the other.
struct Contact {
  std::uint32_t lanes = 0;
  std::uint32_t length = 0;  // of the address
  std::uint64_t eager_bytes = 0;
  std::uint64_t window_bytes = 0;
  std::uint8_t address[28]{};  // where it listens; the longer one of IPv4's and IPv6's
  std::uint32_t reserved = 0;

  SocketAddress where() const {
    SocketAddress made;
    made.length = std::min<std::uint32_t>(length, sizeof address);
    std::memcpy(&made.storage, address, made.length);
    return made;
  }
};

// First on every connection, from the end that connected. The other end answers with kMagic when it takes it.
struct Hello {
  std::uint32_t magic = kMagic;
  std::int32_t rank = -1;  // of the sender in the group
  std::uint32_t lane = 0;
  std::uint32_t reserved = 0;
  Digest group{};
  Contact contact;  // the sender's
};

// What a short message takes of the window: its data and the bookkeeping of one that waits.
inline constexpr std::size_t window_cost(std::size_t bytes) { return bytes + 64; }

// What can be set, read once per context.
struct Settings {
  std::string interfaces, gloo_interfaces;
  std::size_t lanes, eager_bytes, window_bytes, chunk_bytes;
};

inline constexpr sdk::Setting<Settings> kSettings[] = {
    {&Settings::interfaces, "RODA_TCP_IFACE", "", "",
     "Interfaces to listen on, separated by commas, of which the first usable one is taken; empty: HOROVOD_GLOO_IFACE, "
     "or chosen."},
    {&Settings::gloo_interfaces, "HOROVOD_GLOO_IFACE", "", "", "The same where RODA_TCP_IFACE is empty."},
    {&Settings::lanes, "RODA_TCP_LANES", "connections", "1", 1, kMostLanes,
     "Connections between two ranks; the smaller number of the two counts."},
    {&Settings::eager_bytes, "RODA_TEST_TCP_EAGER_BYTES", "bytes", "65536", 0, kMostEager,
     "Longer messages wait for their receive."},
    {&Settings::window_bytes, "RODA_TEST_TCP_WINDOW_BYTES", "bytes", "1048576", 0, 1 << 30,
     "Short messages from one rank that may wait for their receives."},
    {&Settings::chunk_bytes, "RODA_TEST_TCP_CHUNK_BYTES", "bytes", "131072", 4096, kMostChunk,
     "Pieces that a long message is sent in."},
};

}  // namespace roda::tcp_transport

// For programs that link the transport instead of loading it. Lives as long as the process.
const roda_transport* roda_tcp_transport();
