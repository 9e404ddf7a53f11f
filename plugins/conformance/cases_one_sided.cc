// Signals, windows and memory.
#include <cstring>

#include "plugins/conformance/kit.h"

namespace roda::conformance {
namespace {

// Window memory of a group: the transport's own where it hands some out, plain memory otherwise.
class WindowMemory {
 public:
  WindowMemory(Env& env, Group& group, std::size_t bytes) : env_(env), group_(group) {
    if (env.has(RODA_CAP_ALLOCATE)) {
      memory_ = group.allocate(bytes);
      return;
    }
    if (!env.has(RODA_CAP_WINDOW_ANY)) throw CaseSkipped("no memory that a window may be opened over");
    plain_.resize(bytes);
  }
  ~WindowMemory() {
    if (memory_.address != nullptr) env_.table().memory_free(group_.get(), &memory_);
  }
  WindowMemory(const WindowMemory&) = delete;
  WindowMemory& operator=(const WindowMemory&) = delete;

  char* data() { return memory_.address != nullptr ? static_cast<char*>(memory_.address) : plain_.data(); }
  const roda_memory* memory() const { return memory_.address != nullptr ? &memory_ : nullptr; }
  void open(std::uint32_t slot, std::size_t bytes, std::size_t offset = 0) {
    must("window_open", [&](roda_error* error) {
      return env_.table().window_open(group_.get(), slot, data() + offset, bytes, memory(), error);
    });
  }

 private:
  Env& env_;
  Group& group_;
  roda_memory memory_{};
  std::vector<char> plain_;
};

void signals(Env& env) {
  Group group(env, "signals");
  const std::uint32_t count = env.table().signal_count(group.get());
  CHECK(count >= 1, "no signals");
  for (std::uint32_t index = 0; index < count; ++index) {
    group.signal_all(index, 1000u * static_cast<unsigned>(group.rank() + 1) + index);
  }
  group.for_each_peer([&](int peer) {
    for (std::uint32_t index = 0; index < count; ++index) {
      const std::uint64_t expected = 1000u * static_cast<unsigned>(peer + 1) + index;
      group.wait_signal(peer, index, expected);
      const std::uint64_t value = env.table().signal_value(group.get(), peer, index);
      CHECK(value == expected, "signal %u of rank %d is %d", index, peer, static_cast<int>(value));
    }
  });
  env.barrier();
}

void ping_pong(Env& env) {
  constexpr std::uint64_t kRounds = 500;
  Group group(env, "ping_pong");
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    if (group.rank() != 0) group.wait_signal(group.left(), 0, round);
    group.signal(group.right(), 0, round);
    if (group.rank() == 0) group.wait_signal(group.left(), 0, round);
  }
  env.barrier();
}

// What was written before a signal is seen by whoever sees the signal.
void visibility(Env& env) {
  constexpr std::size_t kWords = 2048;
  constexpr std::uint64_t kRounds = 100;
  Group group(env, "visibility");
  WindowMemory memory(env, group, kWords * sizeof(std::uint64_t));
  auto* words = reinterpret_cast<std::uint64_t*>(memory.data());
  std::vector<std::uint64_t> copy(kWords);
  memory.open(0, kWords * sizeof(std::uint64_t));
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    for (std::size_t i = 0; i < kWords; ++i) words[i] = round * 10000 + i;
    group.signal(group.right(), 0, round);
    group.wait_signal(group.left(), 0, round);
    const void* mapped = env.has(RODA_CAP_MAP) ? env.table().window_map(group.get(), group.left(), 0) : nullptr;
    if (mapped != nullptr) {
      std::memcpy(copy.data(), mapped, kWords * sizeof(std::uint64_t));
    } else if (env.has(RODA_CAP_GET)) {
      group.wait(group.get(group.left(), 0, 0, copy.data(), kWords * sizeof(std::uint64_t)));
    } else {
      throw CaseSkipped("windows can be neither mapped nor read");
    }
    for (std::size_t i = 0; i < kWords; ++i)
      CHECK(copy[i] == round * 10000 + i, "word %zu is old in round %d", i, static_cast<int>(round));
    group.signal(group.left(), 1, round);
    group.wait_signal(group.right(), 1, round);  // before writing again
  }
  env.barrier();
}

// What stores cost: asked by all, of all, before and after an abort. Nothing is promised of the figure but that this
// rank itself is not far.
void store_cost(Env& env) {
  if (env.table().store_cost == nullptr) throw CaseSkipped("it does not tell what stores cost");
  Group group(env, "store_cost");
  for (int round = 0; round < 20; ++round) {
    group.for_each_peer([&](int peer) { env.table().store_cost(group.get(), peer); });
    const std::uint32_t own = env.table().store_cost(group.get(), group.rank());
    CHECK(own == 0, "stores that rank %d reads itself cost it %u percent", group.rank(), own);
    env.barrier();
  }
  group.abort(RODA_ERR_ABORTED, env.rank(), "the case ends");
  group.for_each_peer([&](int peer) { env.table().store_cost(group.get(), peer); });
  env.barrier();
}

void get(Env& env) {
  constexpr std::size_t kBytes = 3u << 20;
  Group group(env, "get");
  WindowMemory memory(env, group, kBytes);
  const std::vector<char> mine = pattern(kBytes, group.rank(), 0, 5);
  std::memcpy(memory.data(), mine.data(), kBytes);
  memory.open(1, kBytes);
  group.signal_all(0, 1);
  group.for_each_peer([&](int peer) {
    group.wait_signal(peer, 0, 1);
    const std::vector<char> expected = pattern(kBytes, peer, 0, 5);
    for (const auto& [offset, bytes] : std::vector<std::pair<std::size_t, std::size_t>>{
             {0, kBytes}, {1, 1}, {kBytes - 1, 1}, {4097, 70001}, {kBytes, 0}}) {
      std::vector<char> data(bytes);
      group.wait(group.get(peer, 1, offset, data.data(), bytes));
      CHECK(bytes == 0 || std::memcmp(data.data(), &expected[offset], bytes) == 0,
            "get of %zu bytes at %zu from rank %d", bytes, offset, peer);
    }
  });
  // All are through with the windows of the others: until then their owners may be needed (RODA_CAP_ACTIVE_WINDOWS).
  group.signal_all(1, 1);
  group.wait_signal_of_all(1, 1);
  env.barrier();
  env.table().window_close(group.get(), 1);
}

void put(Env& env) {
  constexpr std::size_t kPart = 200'003;
  Group group(env, "put");
  const auto parts = static_cast<std::size_t>(group.size());
  WindowMemory memory(env, group, kPart * parts);
  std::memset(memory.data(), 'x', kPart * parts);
  memory.open(0, kPart * parts);
  group.signal_all(0, 1);
  group.for_each_peer([&](int peer) {
    group.wait_signal(peer, 0, 1);
    const std::vector<char> data = pattern(kPart, group.rank(), peer, 6);
    group.wait(group.put(peer, 0, kPart * static_cast<std::size_t>(group.rank()), data.data(), kPart));
    group.signal(peer, 0, 2);
  });
  group.for_each_peer([&](int peer) {
    group.wait_signal(peer, 0, 2);
    CHECK(std::memcmp(memory.data() + kPart * static_cast<std::size_t>(peer),
                      pattern(kPart, peer, group.rank(), 6).data(), kPart) == 0,
          "put by rank %d", peer);
  });
  env.barrier();
}

void reopen(Env& env) {
  constexpr std::size_t kBytes = 5000;
  Group group(env, "reopen");
  const std::uint32_t last = env.table().window_count(group.get()) - 1;
  WindowMemory memory(env, group, 4 * kBytes);
  for (std::uint64_t round = 1; round <= 4; ++round) {
    const std::size_t offset = (round - 1) * kBytes;
    std::memset(memory.data() + offset, static_cast<int>(round) + group.rank(), kBytes);
    memory.open(last, kBytes, offset);
    group.signal(group.right(), 0, round);
    group.wait_signal(group.left(), 0, round);
    std::vector<char> data(kBytes);
    group.wait(group.get(group.left(), last, 0, data.data(), kBytes));
    CHECK(data[0] == static_cast<char>(round) + group.left() && data[kBytes - 1] == data[0], "round %d reads %d",
          static_cast<int>(round), data[0]);
    group.signal(group.left(), 1, round);
    group.wait_signal(group.right(), 1, round);
    if (round % 2 == 0) env.table().window_close(group.get(), last);
  }
  env.barrier();
}

void allocation(Env& env) {
  Group group(env, "allocation");
  for (int round = 0; round < 3; ++round) {
    std::vector<roda_memory> blocks;
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{4096}, std::size_t{1u << 20}, std::size_t{16u << 20}}) {
      const roda_memory memory = group.allocate(bytes);
      CHECK(reinterpret_cast<std::uintptr_t>(memory.address) % 64 == 0, "%zu bytes are not aligned to 64", bytes);
      if (memory.kind == RODA_MEMORY_HOST) std::memset(memory.address, round, bytes);
      blocks.push_back(memory);
    }
    for (roda_memory& memory : blocks) env.table().memory_free(group.get(), &memory);
  }
  env.barrier();
}

constexpr std::uint64_t kSignalledGet = RODA_CAP_SIGNAL | RODA_CAP_GET;

}  // namespace

const std::vector<Case> kOneSidedCases = {
    {"signal.values", "every signal of every pair", RODA_CAP_SIGNAL, 2, signals},
    {"signal.ping_pong", "500 signals around a ring", RODA_CAP_SIGNAL, 2, ping_pong},
    {"window.visibility", "data written before a signal are seen with it", RODA_CAP_SIGNAL, 2, visibility},
    {"window.store_cost", "what stores cost, where it is known", RODA_CAP_MAP, 2, store_cost},
    {"window.get", "ranges of every peer's window", kSignalledGet, 2, get},
    {"window.put", "everyone writes a part of everyone's window", RODA_CAP_SIGNAL | RODA_CAP_PUT, 2, put},
    {"window.reopen", "a slot is opened again elsewhere", kSignalledGet, 2, reopen},
    {"memory.allocation", "memory of all sizes, aligned, given back", RODA_CAP_ALLOCATE, 1, allocation},
};

}  // namespace roda::conformance
