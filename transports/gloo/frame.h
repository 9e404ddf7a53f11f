// What a short message travels in, and the words that the two ends of a link exchange.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "transports/gloo/mesh.h"

namespace roda::gloo {

struct FrameHeader {
  enum class Kind : std::uint32_t {
    kMessage,  // and its data
    kAsk,      // a receive of this tag and length waits; `number` is the question's
    kRefuse,   // the message for the receive of question `number` has this length instead
  };

  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;
  Kind kind = Kind::kMessage;
  std::uint32_t number = 0;

  // Members may be trusted to be members, not to be sane.
  bool is_sane() const;
};

struct Frame {
  static constexpr std::size_t kPayloadBytes = 8192;

  FrameHeader header;
  std::array<char, kPayloadBytes> payload;

  std::size_t length() const { return sizeof header + (header.kind == FrameHeader::Kind::kMessage ? header.bytes : 0); }
};
static_assert(offsetof(Frame, payload) == sizeof(FrameHeader));

inline bool is_short(std::size_t bytes) { return bytes <= Frame::kPayloadBytes; }

inline bool FrameHeader::is_sane() const {
  return kind == Kind::kMessage ? is_short(bytes) : kind == Kind::kAsk || kind == Kind::kRefuse;
}

// A frame with Gloo's buffer over it.
struct FrameBuffer {
  explicit FrameBuffer(Mesh& mesh) : buffer(mesh.context()->createUnboundBuffer(&frame, sizeof frame)) {}

  Frame frame;
  Buffer buffer;
};

// Slots of Gloo's. Its collectives use the lower 60 bits at most (gloo/types.h).
constexpr std::uint64_t kFrameSlot = 0x70ULL << 56;

// Of a long message. Tags of one length only share a slot if they differ in what the last step drops, so in one of 2^63
// cases; the mixing is that of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
inline std::uint64_t long_slot(std::uint64_t tag, std::uint64_t bytes) {
  const auto mix = [](std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  };
  return mix(tag ^ mix(bytes)) | 1ULL << 63;
}

}  // namespace roda::gloo
