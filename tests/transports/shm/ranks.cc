#include "tests/transports/shm/ranks.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>

#include "transports/shm/shm.h"

namespace roda::shm_test {

namespace {
constexpr int kEntries = 1024;
constexpr std::size_t kValueBytes = 1024;
}  // namespace

struct Board::Shared {
  struct Entry {
    std::atomic<int> state;  // 0 free, 1 being written, 2 there
    int rank;
    char key[64];
    std::size_t bytes;
    unsigned char value[kValueBytes];
  };
  struct Ticket {
    Shared* shared;
    int rank;
    int generation;
  };
  Entry entries[kEntries];
  std::atomic<int> arrived;
  std::atomic<std::uint64_t> numbers[64];
  Ticket tickets[64];
  std::atomic<int> used_tickets;
};

Board::Board() {
  void* at = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  shared_ = new (at) Shared{};
}

Board::~Board() { ::munmap(shared_, sizeof(Shared)); }

roda_exchange Board::exchange(int rank, int generation) {
  Shared::Ticket& ticket = shared_->tickets[shared_->used_tickets.fetch_add(1)];
  ticket = {shared_, rank, generation};
  roda_exchange exchange{};
  exchange.struct_size = sizeof exchange;
  exchange.self = &ticket;
  exchange.put = put;
  exchange.get = get;
  return exchange;
}

std::int32_t Board::put(void* self, const char* key, const void* value, std::size_t bytes, roda_error*) {
  auto ticket = static_cast<Shared::Ticket*>(self);
  if (bytes > kValueBytes) return RODA_ERR_INVALID;
  for (auto& entry : ticket->shared->entries) {
    int free = 0;
    if (!entry.state.compare_exchange_strong(free, 1)) continue;
    entry.rank = ticket->rank;
    std::snprintf(entry.key, sizeof entry.key, "%d/%s", ticket->generation, key);
    entry.bytes = bytes;
    std::memcpy(entry.value, value, bytes);
    entry.state.store(2);
    return RODA_OK;
  }
  return RODA_ERR_NO_MEMORY;
}

std::int32_t Board::get(void* self, std::int32_t rank, const char* key, void* value, std::size_t* bytes, roda_error*) {
  auto ticket = static_cast<Shared::Ticket*>(self);
  std::string wanted = std::to_string(ticket->generation) + "/" + key;
  for (auto& entry : ticket->shared->entries) {
    if (entry.state.load() != 2 || entry.rank != rank || wanted != entry.key) continue;
    if (entry.bytes > *bytes) return RODA_ERR_INVALID;
    std::memcpy(value, entry.value, entry.bytes);
    *bytes = entry.bytes;
    return RODA_OK;
  }
  return RODA_IN_PROGRESS;
}

void Board::barrier(int size) {
  int mine = shared_->arrived.fetch_add(1) + 1;
  int wanted = (mine + size - 1) / size * size;
  while (shared_->arrived.load() < wanted) ::sched_yield();
}

void Board::set(int index, std::uint64_t value) { shared_->numbers[index].store(value); }

std::uint64_t Board::wait_for(int index) {
  std::uint64_t value;
  while ((value = shared_->numbers[index].load()) == 0) ::sched_yield();
  return value;
}

Member::Member(Board& board, int rank, int size, const Knobs& knobs, std::uint64_t timeout_ns)
    : t(*roda_shm_transport()), rank(rank), size(size), knobs_(knobs) {
  for (int i = 0; i < size; ++i) world_ranks_.push_back(100 + i);
  error_.struct_size = sizeof error_;
  host_.struct_size = sizeof host_;
  host_.abi_version = RODA_ABI_VERSION;
  host_.self = this;
  host_.knob = [](void* self, const char* name) -> const char* {
    auto& knobs = static_cast<Member*>(self)->knobs_;
    auto found = knobs.find(name);
    return found == knobs.end() ? nullptr : found->second.c_str();
  };
  EXPECT_EQ(t.context_create(&host_, &context, &error_), RODA_OK) << error_.message;
  roda_group_desc desc{};
  desc.struct_size = sizeof desc;
  desc.rank = rank;
  desc.size = size;
  desc.world_ranks = world_ranks_.data();
  desc.name = "test";
  desc.timeout_ns = timeout_ns;
  desc.exchange = board.exchange(rank);
  EXPECT_EQ(t.group_create(context, &desc, &group, &error_), RODA_OK) << error_.message;
}

Member::~Member() {
  if (group != nullptr) t.group_destroy(group);
  t.context_destroy(context);
}

int Member::form() {
  int code;
  while ((code = t.group_test(group, &error_)) == RODA_IN_PROGRESS) ::sched_yield();
  return code;
}

int Member::wait(roda_request* request) {
  if (request == nullptr) return RODA_OK;
  int code;
  while ((code = t.request_test(group, request, &error_)) == RODA_IN_PROGRESS) {
    if (t.progress(context) == 0) ::sched_yield();
  }
  return code;
}

roda_request* Member::start_send(int peer, std::uint64_t tag, const void* data, std::size_t bytes) {
  roda_request* request = nullptr;
  int code;
  while ((code = t.send(group, peer, tag, data, bytes, nullptr, &request, &error_)) == RODA_AGAIN) t.progress(context);
  EXPECT_EQ(code, RODA_OK) << error_.message;
  return request;
}

void Member::send(int peer, std::uint64_t tag, const void* data, std::size_t bytes) {
  EXPECT_EQ(wait(start_send(peer, tag, data, bytes)), RODA_OK) << error_.message;
}

roda_request* Member::start_recv(int peer, std::uint64_t tag, void* data, std::size_t bytes) {
  roda_request* request = nullptr;
  EXPECT_EQ(t.recv(group, peer, tag, data, bytes, nullptr, &request, &error_), RODA_OK) << error_.message;
  return request;
}

int Member::recv(int peer, std::uint64_t tag, void* data, std::size_t bytes) {
  roda_request* request = nullptr;
  int code = t.recv(group, peer, tag, data, bytes, nullptr, &request, &error_);
  return code == RODA_OK ? wait(request) : code;
}

roda_request* Member::start_get(int peer, std::uint32_t slot, std::size_t offset, void* to, std::size_t bytes) {
  roda_request* request = nullptr;
  int code;
  while ((code = t.get(group, peer, slot, offset, to, bytes, &request, &error_)) == RODA_AGAIN) t.progress(context);
  EXPECT_EQ(code, RODA_OK) << error_.message;
  return request;
}

roda_request* Member::start_put(int peer, std::uint32_t slot, std::size_t offset, const void* from, std::size_t bytes) {
  roda_request* request = nullptr;
  int code;
  while ((code = t.put(group, peer, slot, offset, from, bytes, &request, &error_)) == RODA_AGAIN) t.progress(context);
  EXPECT_EQ(code, RODA_OK) << error_.message;
  return request;
}

void Member::signal(int peer, std::uint32_t index, std::uint64_t value) {
  EXPECT_EQ(t.signal(group, peer, index, value, &error_), RODA_OK) << error_.message;
}

void Member::wait_signal(int peer, std::uint32_t index, std::uint64_t value, bool sleep) {
  if (sleep) return sleep_until([&] { return t.signal_value(group, peer, index) >= value; });
  while (t.signal_value(group, peer, index) < value) {
    if (t.progress(context) == 0) ::sched_yield();
  }
}

void Member::sleep_until(const std::function<bool()>& done) {
  while (!done()) {
    if (t.progress(context) > 0) continue;
    if (t.arm(context) != RODA_OK) continue;
    if (!done()) {
      pollfd entry{t.event_fd(context), POLLIN, 0};
      ASSERT_EQ(::poll(&entry, 1, 20'000), 1) << "nobody rang";
    }
    t.disarm(context);
  }
}

void Member::barrier() {
  ++barriers_;
  for (int i = 0; i < size; ++i) signal(i, t.signal_count(group) - 1, barriers_);
  for (int i = 0; i < size; ++i) wait_signal(i, t.signal_count(group) - 1, barriers_);
}

int Member::wait_for_abort() {
  int code = RODA_OK;
  sleep_until([&] { return (code = t.group_test(group, &error_)) != RODA_OK; });
  return code;
}

void run_ranks(int size, const std::function<void(int)>& body, int dies) {
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::alarm(60);  // a hang is a failure, not an endless test
      body(rank);
      std::fflush(nullptr);
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  for (int rank = 0; rank < size; ++rank) {
    int status = 0;
    EXPECT_EQ(::waitpid(children[static_cast<std::size_t>(rank)], &status, 0),
              children[static_cast<std::size_t>(rank)]);
    if (rank != dies) {
      EXPECT_EQ(status, 0) << "rank " << rank << " failed or died";
    }
  }
}

std::vector<unsigned char> pattern(std::size_t bytes, unsigned seed) {
  std::vector<unsigned char> data(bytes);
  std::uint32_t state = seed * 2654435761u + 1;
  for (auto& byte : data) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<unsigned char>(state >> 24);
  }
  return data;
}

}  // namespace roda::shm_test
