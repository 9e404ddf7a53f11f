// What the members of a group tell each other before they form a communicator, and what must agree.
#pragma once

#include <cstdint>
#include <roda/sdk/exchange.hpp>
#include <vector>

#include "plugins/base/cuda/types.h"
#include "transports/nccl/library.h"

namespace roda::nccl {

// One member's, exchanged as bytes: fixed size, no pointers.
struct Card {
  static constexpr std::uint32_t kLayout = 2;
  std::uint32_t layout = kLayout;
  std::int32_t failure_code = 0;  // why this rank can't take part; 0: it can
  char failure[400] = {};
  std::int32_t version = 0;  // of NCCL
  std::int32_t device = -1;
  std::int32_t registers = 0;  // its NCCL registers buffers, and may
  cuda::Uuid gpu{};
  char host[64] = {};
  char path[128] = {};  // of NCCL
  UniqueId id{};        // group rank 0's
};

// Throws sdk::Failure, the same on every rank, when a member can't take part, when their NCCL differ, or when two use
// one GPU. `world_ranks` are for the text.
void check_cards(const std::vector<Card>& cards, const std::vector<std::int32_t>& world_ranks);

}  // namespace roda::nccl
