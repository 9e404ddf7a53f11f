// One Gloo collective, run to its end on the calling thread.
#pragma once

#include <gloo/context.h>
#include <roda/abi/transport.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "transports/gloo/waits.h"

namespace roda::gloo {

// A copy of what collective_start was given; vectors keep their memory between uses.
struct Collective {
  int collective = RODA_BARRIER;
  int dtype = RODA_UINT8;
  int op = RODA_SUM;
  int root = 0;
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;
  std::vector<std::size_t> send_counts;
  std::vector<std::size_t> recv_counts;
  std::uint32_t tag = 0;

  void assign(const roda_collective_args& args, int size);
};

// Every dtype; sum, min, max and product. Reduce-scatter is not offered: Gloo's takes typed functions without a state
// and only halving-doubling, so a schedule of ours over its messages serves better.
bool is_supported(int collective, int dtype, int op);

// True when there is nothing to talk about: no elements, or a group of one (whose data is copied here and now).
bool is_trivial(const Collective& what, int size);

// Throws what Gloo throws. The range of memory it reads and writes is no longer touched when it returns or throws.
// After `waits` were given up it may return as if all were well: ask before believing it.
void run(const std::shared_ptr<::gloo::Context>& context, const Collective& what, const roda_host* host, Waits* waits);

}  // namespace roda::gloo
