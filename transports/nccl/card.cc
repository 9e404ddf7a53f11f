#include "transports/nccl/card.h"

#include <cstring>
#include <string>

namespace roda::nccl {
namespace {

std::string rank_text(std::int32_t rank) { return "rank " + std::to_string(rank); }

bool is_same(const cuda::Uuid& a, const cuda::Uuid& b) { return std::memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0; }

std::string place(const Card& card) {
  return "device " + std::to_string(card.device) + " of its process on " + std::string(card.host);
}

void check_pair(const Card& a, std::int32_t a_rank, const Card& b, std::int32_t b_rank) {
  if (a.version != b.version) {
    throw sdk::Failure(RODA_ERR_PRECONDITION,
                       "nccl: the ranks' NCCL differ: " + rank_text(a_rank) + " has " + version_text(a.version) + " (" +
                           a.path + " on " + a.host + "), " + rank_text(b_rank) + " has " + version_text(b.version) +
                           " (" + b.path + " on " + b.host + "); install the same on all, or set RODA_NCCL_LIBRARY",
                       b_rank);
  }
  if (is_same(a.gpu, b.gpu)) {
    throw sdk::Failure(RODA_ERR_PRECONDITION,
                       "nccl: " + rank_text(a_rank) + " and " + rank_text(b_rank) + " use the same GPU (" + place(b) +
                           "), which NCCL does not allow: give each rank of a host its own "
                           "(torch.cuda.set_device(hvd.local_rank())) and start no more ranks on a host than it has "
                           "GPUs; docs/gpu.md, \"Several processes on one GPU\", says how they share one",
                       b_rank);
  }
}

}  // namespace

void check_cards(const std::vector<Card>& cards, const std::vector<std::int32_t>& world_ranks) {
  for (std::size_t i = 0; i < cards.size(); ++i) {
    if (cards[i].layout != Card::kLayout) {
      throw sdk::Failure(RODA_ERR_PRECONDITION, "nccl: " + rank_text(world_ranks[i]) + " has another plugin",
                         world_ranks[i]);
    }
    if (cards[i].failure_code == 0) continue;
    throw sdk::Failure(cards[i].failure_code,
                       rank_text(world_ranks[i]) + " on " + cards[i].host + ": " + cards[i].failure, world_ranks[i]);
  }
  for (std::size_t i = 0; i < cards.size(); ++i) {
    for (std::size_t j = i + 1; j < cards.size(); ++j) {
      check_pair(cards[i], world_ranks[i], cards[j], world_ranks[j]);
    }
  }
}

}  // namespace roda::nccl
