// One other member of a group (or this rank itself) as this process sees it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <roda/sdk/matcher.hpp>
#include <string>
#include <vector>

#include "plugins/base/fork_guard.h"
#include "plugins/base/shared_segment.h"
#include "plugins/base/unique_fd.h"
#include "transports/shm/layout.h"
#include "transports/shm/request.h"
#include "transports/shm/ring.h"

namespace roda::shm {

class Group;

// A message that came before its receive.
struct Unexpected {
  std::uint64_t tag = 0;
  Record record{};
  std::vector<std::byte> payload;  // kEager
};

struct Peer {
  Group* group = nullptr;
  int rank = -1;
  int world_rank = -1;
  pid_t pid = 0;  // 0: not visible from here

  SharedSegment segment;  // not mapped twice for this rank itself
  std::byte* base = nullptr;
  std::size_t segment_bytes = 0;
  SegmentHeader* header = nullptr;
  Word* signals_out = nullptr;       // in its segment
  const Word* signals_in = nullptr;  // in ours
  WindowEntry* windows = nullptr;    // in its segment
  AccessWord* our_access = nullptr;  // in its segment: we reach into its memory
  AccessWord* its_access = nullptr;  // in ours: it reaches into our memory

  UniqueFd bell;   // its context's eventfd
  UniqueFd pidfd;  // readable once it died
  ForkGuard bell_guard;
  ForkGuard pidfd_guard;
  bool cma = false;
  bool dead = false;

  RingProducer out;
  RingConsumer in;
  sdk::Matcher<Request, Unexpected> receives;
  std::deque<Record> control;  // answers that found the ring full

  // Wakes the peer if it sleeps. Whatever it shall see was stored before.
  //
  // The sleeper stores sleeping = 1, fences, and looks at signals and rings once more (Group::has_news and the caller's
  // re-test); we store the signal or the tail, fence, and look at sleeping. Both fences are seq_cst, so in their one
  // order either ours comes first and the sleeper sees the news, or the sleeper's does and we see it sleeping.
  void wake() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (header->sleeping.load(std::memory_order_relaxed) != 0) ring_bell();
  }
  void ring_bell();

  bool is_open() const { return header->state.load(std::memory_order_seq_cst) == 0; }
};

}  // namespace roda::shm
