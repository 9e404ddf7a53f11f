// One exchange with one peer: a range out, a range in, in parts of a segment, all under one tag.
//
// Threads: the holder of the engine's baton.
#pragma once

#include <roda/abi/transport.h>

#include <cstddef>
#include <cstdint>

#include "core/execute/group.h"
#include "plugins/base/status.h"

namespace roda::execute {

class Transfer {
 public:
  // `group` outlives it.
  explicit Transfer(TransportGroup& group) : group_(group) {}

  // Begins; nothing is pending. Messages between two ranks under one tag match in the order in which they are sent, so
  // exchanges follow one another in one order on both sides. Either range may be empty: no message then.
  void begin(int peer, std::uint64_t tag, std::size_t segment, const void* out, std::size_t out_bytes, void* in,
             std::size_t in_bytes);
  // Starts and ends what it can. *done: both ranges have gone over, and may be used again. *moved: something did.
  Status advance(bool* done, bool* moved);
  // After a failure: true when nothing is pending any more.
  bool release();

 private:
  // Parts of one direction on their way, oldest first.
  struct Way {
    static constexpr std::uint32_t kMost = 4;
    char* data = nullptr;
    std::size_t bytes = 0;
    std::size_t begun = 0;
    roda_request* pending[kMost] = {};
    std::uint32_t head = 0;
    std::uint32_t count = 0;
  };
  Status start(Way* way, bool sends, bool* moved);
  Status reap(Way* way, bool* moved);

  TransportGroup& group_;
  int peer_ = 0;
  std::uint64_t tag_ = 0;
  std::size_t segment_ = 1;
  Way out_;
  Way in_;
};

}  // namespace roda::execute
