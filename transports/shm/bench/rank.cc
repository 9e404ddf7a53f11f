#include "transports/shm/bench/rank.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "transports/shm/shm.h"

namespace roda::shm_bench {

namespace {

constexpr std::uint32_t kMeetSignal = 120;
enum Window : std::uint32_t { kShared, kStage, kPrivate };

int cores() {
  CoreBudget budget = core_budget();
  return cores_of({&budget, 1});
}

// The n-th core that the process may use, as launchers bind ranks.
void bind_to_core(int n) {
  cpu_set_t allowed, one;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed) == 0 || n-- > 0) continue;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    (void)::sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

}  // namespace

Rank::Rank(Board& board, int rank, int size, std::size_t bytes)
    : rank(rank),
      size(size),
      count(bytes / 4),
      scratch(kMaxBlock / 4),
      t_(*roda_shm_transport()),
      place_{&board, rank},
      policy_(size, cores()) {
  if (policy_.spins()) bind_to_core(rank);
  form();
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) expect(RODA_ERR_NO_MEMORY);
  (void)::madvise(at, bytes, MADV_HUGEPAGE);  // as allocators of frameworks do for large tensors
  private_ = static_cast<float*>(at);
  open_shared(kShared, bytes);
  open_shared(kStage, kSlots * kMaxBlock);
  expect(t_.window_open(group_, kPrivate, private_, bytes, nullptr, &error_));
  meet();
  for (int i = 0; i < size; ++i) {
    shared.push_back(static_cast<float*>(t_.window_map(group_, i, kShared)));
    stage_.push_back(static_cast<float*>(t_.window_map(group_, i, kStage)));
  }
}

void Rank::form() {
  host_.struct_size = sizeof host_;
  expect(t_.context_create(&host_, &context_, &error_));
  std::vector<std::int32_t> world(static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i) world[static_cast<std::size_t>(i)] = i;
  roda_group_desc desc{};
  desc.struct_size = sizeof desc;
  desc.rank = rank;
  desc.size = size;
  desc.world_ranks = world.data();
  desc.name = "bench";
  desc.exchange = {sizeof(roda_exchange), 0, &place_, put, get_card};
  expect(t_.group_create(context_, &desc, &group_, &error_));
  int code;
  for (std::uint32_t i = 0; (code = t_.group_test(group_, &error_)) == RODA_IN_PROGRESS; ++i) policy_.relax(i);
  expect(code);
}

std::int32_t Rank::put(void* self, const char*, const void* value, std::size_t bytes, roda_error*) {
  auto place = static_cast<Place*>(self);
  Board::Card& card = place->board->cards[place->rank];
  std::memcpy(card.data, value, bytes);
  card.bytes.store(bytes);
  return RODA_OK;
}

std::int32_t Rank::get_card(void* self, std::int32_t rank, const char*, void* value, std::size_t* bytes, roda_error*) {
  Board::Card& card = static_cast<Place*>(self)->board->cards[rank];
  const std::size_t length = card.bytes.load();
  if (length == 0) return RODA_IN_PROGRESS;
  std::memcpy(value, card.data, length);
  *bytes = length;
  return RODA_OK;
}

float* Rank::open_shared(std::uint32_t slot, std::size_t bytes) {
  roda_memory memory{};
  expect(t_.memory_alloc(group_, bytes, &memory, &error_));
  expect(t_.window_open(group_, slot, memory.address, bytes, &memory, &error_));
  return static_cast<float*>(memory.address);
}

void Rank::expect(int code) {
  if (code == RODA_OK) return;
  std::fprintf(stderr, "rank %d: code %d %s\n", rank, code, error_.message);
  std::_Exit(1);
}

void Rank::signal(std::uint32_t index, std::uint64_t value) {
  for (int i = 0; i < size; ++i) {
    if (i != rank) expect(t_.signal(group_, i, index, value, &error_));
  }
}

void Rank::wait(std::uint32_t index, std::uint64_t value) {
  for (int i = 0; i < size; ++i) {
    for (std::uint32_t k = 0; i != rank && t_.signal_value(group_, i, index) < value; ++k) policy_.relax(k);
  }
}

void Rank::meet() {
  ++meetings_;
  signal(kMeetSignal, meetings_);
  wait(kMeetSignal, meetings_);
}

void Rank::get(int peer, std::size_t first, float* to, std::size_t n) {
  if (n == 0) return;
  roda_request* request = nullptr;
  expect(t_.get(group_, peer, kPrivate, first * 4, to, n * 4, &request, &error_));
  int code = request == nullptr ? RODA_OK : RODA_IN_PROGRESS;
  while (code == RODA_IN_PROGRESS) {
    t_.progress(context_);
    code = t_.request_test(group_, request, &error_);
  }
  expect(code);
}

std::size_t Rank::part(std::size_t n, int i) const {
  auto parts = static_cast<std::size_t>(size);
  std::size_t each = ((n + parts - 1) / parts + 15) / 16 * 16;
  return std::min(n, each * static_cast<std::size_t>(i));
}

}  // namespace roda::shm_bench
