// What the executor costs by itself: stages of one rank over a transport that does everything at once.
//
//   execute_overhead [milliseconds per measurement]
#include <roda/abi/host.h>
#include <roda/abi/transport.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/execute/group.h"
#include "core/execute/schedule/program.h"
#include "core/execute/stage_pool.h"
#include "plugins/devices/cpu/cpu_device.h"

namespace {

using roda::Status;
using namespace roda::execute;

// Peers that are always ready; their windows are this rank's own memory.
alignas(64) char instant_memory[1 << 20];

roda_transport make_instant_transport() {
  roda_transport t{};
  t.struct_size = sizeof t;
  t.abi_version = RODA_ABI_VERSION;
  t.name = "instant";
  t.description = "completes everything at once";
  t.progress_mode = RODA_PROGRESS_POLL;
  t.capabilities = RODA_CAP_P2P | RODA_CAP_SIGNAL | RODA_CAP_GET | RODA_CAP_MAP | RODA_CAP_ALLOCATE;
  t.context_create = [](const roda_host*, roda_context**, roda_error*) -> int32_t { return RODA_OK; };
  t.context_destroy = [](roda_context*) {};
  t.context_capabilities = [](roda_context*) -> uint64_t {
    return RODA_CAP_P2P | RODA_CAP_SIGNAL | RODA_CAP_GET | RODA_CAP_MAP | RODA_CAP_ALLOCATE;
  };
  t.group_create = [](roda_context*, const roda_group_desc*, roda_group** group, roda_error*) -> int32_t {
    *group = reinterpret_cast<roda_group*>(instant_memory);
    return RODA_OK;
  };
  t.group_test = [](roda_group*, roda_error*) -> int32_t { return RODA_OK; };
  t.group_abort = [](roda_group*, const roda_error*) {};
  t.group_destroy = [](roda_group*) {};
  t.send = [](roda_group*, int32_t, uint64_t, const void*, size_t, const roda_memory*, roda_request** request,
              roda_error*) -> int32_t {
    *request = nullptr;
    return RODA_OK;
  };
  t.recv = [](roda_group*, int32_t, uint64_t, void*, size_t, const roda_memory*, roda_request** request,
              roda_error*) -> int32_t {
    *request = nullptr;
    return RODA_OK;
  };
  t.signal_count = [](roda_group*) -> uint32_t { return 256; };
  t.signal = [](roda_group*, int32_t, uint32_t, uint64_t, roda_error*) -> int32_t { return RODA_OK; };
  t.signal_value = [](roda_group*, int32_t, uint32_t) { return UINT64_MAX; };
  t.window_count = [](roda_group*) -> uint32_t { return 128; };
  t.window_open = [](roda_group*, uint32_t, void*, size_t, const roda_memory*, roda_error*) -> int32_t {
    return RODA_OK;
  };
  t.window_close = [](roda_group*, uint32_t) {};
  t.window_map = [](roda_group*, int32_t, uint32_t) -> void* { return instant_memory; };
  t.memory_alloc = [](roda_group*, size_t bytes, roda_memory* memory, roda_error*) -> int32_t {
    memory->address = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    memory->length = bytes;
    return RODA_OK;
  };
  t.memory_free = [](roda_group*, roda_memory* memory) { std::free(memory->address); };
  return t;
}

const roda_host* bench_host() {
  static const roda_host host = {
      sizeof(roda_host),
      RODA_ABI_VERSION,
      nullptr,
      [](void*, int32_t, const char*, const char*) {},
      [](void*, const char*) -> const char* { return nullptr; },
      [](void*, void* dst, const void* a, const void* b, size_t count, int32_t dtype, int32_t op) {
        return roda_cpu_device()->reduce(dst, a, b, count, dtype, op, nullptr, nullptr);
      },
      [](void*, void* dst, const void* src, size_t bytes) { std::memcpy(dst, src, bytes); },
  };
  return &host;
}

// Median nanoseconds of one call, over batches that together take about `milliseconds`.
template <typename F>
double median_ns(int milliseconds, F f) {
  using Clock = std::chrono::steady_clock;
  constexpr int kBatch = 200;
  std::vector<double> batches;
  const auto end = Clock::now() + std::chrono::milliseconds(milliseconds);
  do {
    const auto begin = Clock::now();
    for (int i = 0; i < kBatch; ++i) f();
    batches.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / kBatch);
  } while (Clock::now() < end);
  std::nth_element(batches.begin(), batches.begin() + static_cast<std::ptrdiff_t>(batches.size() / 2), batches.end());
  return batches[batches.size() / 2];
}

void fail_if(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}

std::size_t steps_of(const char* algorithm, int size) {
  const auto* found = roda::schedule::find_algorithm(roda::schedule::Collective::kAllreduce, algorithm);
  std::size_t steps = 0;
  for (const auto& lane : found->make(0, size, 0).lanes) steps += lane.steps.size();
  return steps;
}

void measure(const char* algorithm, int size, std::size_t bytes, int milliseconds) {
  static const roda_transport transport = make_instant_transport();
  std::unique_ptr<TransportContext> context;
  fail_if(TransportContext::create(&transport, bench_host(), &context));
  GroupOptions options;
  options.name = "bench";
  for (int r = 0; r < size; ++r) options.world_ranks.push_back(r);
  std::unique_ptr<TransportGroup> group;
  fail_if(TransportGroup::create(*context, options, &group));
  bool ready = false;
  fail_if(group->test(&ready));

  StagePool pool(*group, ExecuteOptions());
  std::vector<float> data(bytes / sizeof(float));
  StageArgs args;
  args.input = args.output = data.data();
  args.count = data.size();
  const double whole = median_ns(milliseconds, [&] {
    StageHandle stage;
    fail_if(pool.acquire(RODA_ALLREDUCE, algorithm, 0, &stage));
    args.slot = static_cast<std::uint32_t>(++args.launch % group->slots());
    fail_if(stage->start(args));
    for (bool done = false; !done;) fail_if(stage->test(&done));
  });
  // What the data alone costs: in, one sum, nothing else.
  std::vector<float> copy(data.size());
  const double work = median_ns(milliseconds, [&] {
    std::memcpy(copy.data(), data.data(), bytes);
    const void* sources[] = {copy.data(), instant_memory};
    roda::cpu::reduce_many(data.data(), sources, 2, data.size(), RODA_FLOAT32, RODA_SUM);
    asm volatile("" ::: "memory");
  });
  const auto steps = static_cast<double>(steps_of(algorithm, size));
  std::printf("%-20s %3d ranks %7zu B: %9.0f ns, %5.1f ns a step, copy and sum of the data %6.0f ns\n", algorithm, size,
              bytes, whole, whole / steps, work);
}

}  // namespace

int main(int argc, char** argv) {
  const int milliseconds = argc > 1 ? std::atoi(argv[1]) : 200;
  for (const std::size_t bytes : {std::size_t{4}, std::size_t{4096}}) {
    measure("oneshot", 2, bytes, milliseconds);
    measure("oneshot", 8, bytes, milliseconds);
    measure("twoshot", 8, bytes, milliseconds);
    measure("direct", 8, bytes, milliseconds);
  }
  measure("ring", 64, 4, milliseconds);
  measure("recursive_doubling", 64, 4, milliseconds);
  return 0;
}
