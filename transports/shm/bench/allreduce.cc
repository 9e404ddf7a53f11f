// Which way of moving data makes the fastest float32 sum over all ranks of a host, by this transport's own means? The
// executor's defaults come from here; docs/shm.md has the findings.
//
//   shm_bench [ranks] [bytes] [rounds] [variant]
//
// One line per variant and block size: median, fastest, algorithm bandwidth of the median. Results are checked.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "transports/shm/bench/arithmetic.h"
#include "transports/shm/bench/rank.h"

namespace roda::shm_bench {
namespace {

enum Signal : std::uint32_t { kPublished, kReduced };

// Calls f(first, n) for each block of a range.
template <typename F>
void in_blocks(std::size_t begin, std::size_t end, std::size_t block, F f) {
  for (std::size_t at = begin; at < end; at += block / 4) f(at, std::min(block / 4, end - at));
}

// Private tensors; everything is pulled by the kernel, a block at a time.
void pull(Rank& r, std::size_t block) {
  r.meet();
  for (int k = 1; k < r.size; ++k) {
    const int peer = (r.rank + k) % r.size;
    in_blocks(r.part(r.count, r.rank), r.part(r.count, r.rank + 1), block, [&](std::size_t at, std::size_t n) {
      r.get(peer, at, r.scratch.data(), n);
      add(r.mine + at, r.scratch.data(), n);
    });
  }
  r.meet();
  for (int k = 1; k < r.size; ++k) {
    const int peer = (r.rank + k) % r.size;
    in_blocks(r.part(r.count, peer), r.part(r.count, peer + 1), block,
              [&](std::size_t at, std::size_t n) { r.get(peer, at, r.mine + at, n); });
  }
  r.meet();
}

// Private tensors; a block is copied in whole, each rank reduces its part in its own stage, all parts are copied out.
void staged(Rank& r, std::size_t block) {
  in_blocks(0, r.count, block, [&](std::size_t at, std::size_t n) {
    const std::uint64_t step = ++r.step;
    float* own = r.slot(r.rank, step);
    const std::size_t low = r.part(n, r.rank), high = r.part(n, r.rank + 1);
    std::memcpy(own, r.mine + at, n * 4);
    r.signal(kPublished, step);
    r.wait(kPublished, step);
    for (int p = 0; p < r.size; ++p) {
      if (p != r.rank) add(own + low, r.slot(p, step) + low, high - low);
    }
    r.signal(kReduced, step);
    r.wait(kReduced, step);
    for (int p = 0; p < r.size; ++p) {
      const std::size_t from = r.part(n, p), to = r.part(n, p + 1);
      std::memcpy(r.mine + at + from, r.slot(p, step) + from, (to - from) * 4);
    }
  });
}

// Which stores go past the cache.
struct Streaming {
  bool publish = false;
  bool result = false;
  bool collect = false;
  std::size_t result_tile = 0;  // bytes; not 0: the result is copied to the stage, tile by tile, after it was made
};

void copy(float* to, const float* from, std::size_t n, bool streaming) {
  if (streaming) return copy_streaming(to, from, n);
  std::memcpy(to, from, n * 4);
}

// The pieces of the variants below: only what others need is copied in, only what others made is copied out, and the
// own part is summed up in the tensor itself and left in the own stage at the same time.
struct Pipeline {
  Rank& r;
  std::size_t block;
  Streaming streaming;
  std::uint64_t base;
  std::size_t steps;

  Pipeline(Rank& rank, std::size_t block, Streaming streaming)
      : r(rank), block(block), streaming(streaming), base(rank.step + 1), steps((rank.count * 4 + block - 1) / block) {
    r.step += steps;
  }
  std::size_t at(std::size_t k) const { return k * (block / 4); }
  std::size_t length(std::size_t k) const { return std::min(block / 4, r.count - at(k)); }
  // Where rank p's part lies in a slot: the same place in a short last block, or a rank could write its input for the
  // last block over a result of an earlier one that a peer still reads.
  std::size_t place(int p) const { return r.part(block / 4, p); }

  void publish(std::size_t k) {
    float* own = r.slot(r.rank, base + k);
    for (int p = 0; p < r.size; ++p) {
      const std::size_t from = r.part(length(k), p), to = r.part(length(k), p + 1);
      if (p != r.rank) copy(own + place(p), r.mine + at(k) + from, to - from, streaming.publish);
    }
    r.signal(kPublished, base + k);
  }
  void reduce(std::size_t k) {
    r.wait(kPublished, base + k);
    float* own = r.slot(r.rank, base + k);
    const std::size_t low = r.part(length(k), r.rank), n = r.part(length(k), r.rank + 1) - low;
    if (streaming.result_tile > 0) return reduce_in_tiles(k, low, n);
    for (int i = 1; i < r.size; ++i) {
      const float* from = r.slot((r.rank + i) % r.size, base + k) + place(r.rank);
      if (i + 1 < r.size) {
        add(r.mine + at(k) + low, from, n);
      } else if (streaming.result) {
        add_streaming(own + place(r.rank), r.mine + at(k) + low, from, n);
      } else {
        add_both(r.mine + at(k) + low, own + place(r.rank), from, n);
      }
    }
    r.signal(kReduced, base + k);
  }
  void reduce_in_tiles(std::size_t k, std::size_t low, std::size_t n) {
    in_blocks(0, n, streaming.result_tile, [&](std::size_t first, std::size_t count) {
      float* result = r.mine + at(k) + low + first;
      for (int i = 1; i < r.size; ++i) {
        add(result, r.slot((r.rank + i) % r.size, base + k) + place(r.rank) + first, count);
      }
      std::memcpy(r.slot(r.rank, base + k) + place(r.rank) + first, result, count * 4);
    });
    r.signal(kReduced, base + k);
  }
  void collect(std::size_t k) {
    r.wait(kReduced, base + k);
    for (int i = 1; i < r.size; ++i) {
      const int p = (r.rank + i) % r.size;
      const std::size_t from = r.part(length(k), p), n = r.part(length(k), p + 1) - from;
      copy(r.mine + at(k) + from, r.slot(p, base + k) + place(p), n, streaming.collect);
    }
  }
  // Three blocks in flight: nobody waits for a block that was only just handed in.
  void run() {
    for (std::size_t k = 0; k < steps + 2; ++k) {
      if (k < steps) publish(k);
      if (k >= 1 && k - 1 < steps) reduce(k - 1);
      if (k >= 2) collect(k - 2);
    }
  }
};

void in_turn(Rank& r, std::size_t block) {
  Pipeline line(r, block, {});
  for (std::size_t k = 0; k < line.steps; ++k) {
    line.publish(k);
    line.reduce(k);
    line.collect(k);
  }
}

void piped(Rank& r, std::size_t block) { Pipeline(r, block, {}).run(); }
void piped_collect_nt(Rank& r, std::size_t block) { Pipeline(r, block, {.collect = true}).run(); }
void piped_result_nt(Rank& r, std::size_t block) { Pipeline(r, block, {.result = true}).run(); }
void piped_tiles_32(Rank& r, std::size_t block) { Pipeline(r, block, {.result_tile = 32 << 10}).run(); }
void piped_tiles_256(Rank& r, std::size_t block) { Pipeline(r, block, {.result_tile = 256 << 10}).run(); }
void piped_stage_nt(Rank& r, std::size_t block) { Pipeline(r, block, {.publish = true, .result = true}).run(); }

// Tensors in shared memory: each rank sums up its part and writes it to everybody.
void direct(Rank& r, std::size_t block) {
  r.meet();
  in_blocks(r.part(r.count, r.rank), r.part(r.count, r.rank + 1), block, [&](std::size_t at, std::size_t n) {
    for (int i = 1; i + 1 < r.size; ++i) add(r.mine + at, r.shared[(r.rank + i) % r.size] + at, n);
    float* last = r.shared[static_cast<std::size_t>((r.rank + r.size - 1) % r.size)] + at;
    add_both(r.mine + at, last, last, n);
    for (int i = 1; i + 1 < r.size; ++i) std::memcpy(r.shared[(r.rank + i) % r.size] + at, last, n * 4);
  });
  r.meet();
}

void direct_nt(Rank& r, std::size_t block) {
  r.meet();
  in_blocks(r.part(r.count, r.rank), r.part(r.count, r.rank + 1), block, [&](std::size_t at, std::size_t n) {
    for (int i = 1; i + 1 < r.size; ++i) add(r.mine + at, r.shared[(r.rank + i) % r.size] + at, n);
    float* last = r.shared[static_cast<std::size_t>((r.rank + r.size - 1) % r.size)] + at;
    add_streaming(last, r.mine + at, last, n);
    for (int i = 1; i + 1 < r.size; ++i) copy_streaming(r.shared[(r.rank + i) % r.size] + at, r.mine + at, n);
  });
  r.meet();
}

struct Variant {
  const char* name;
  void (*run)(Rank& rank, std::size_t block);
  bool on_shared_memory;
  std::vector<std::size_t> blocks;
};

constexpr std::size_t kKiB = 1024;
const Variant kVariants[] = {
    {"pull", pull, false, {256 * kKiB, 1024 * kKiB}},
    {"staged", staged, false, {256 * kKiB, 1024 * kKiB}},
    {"in_turn", in_turn, false, {512 * kKiB, 1024 * kKiB}},
    {"piped", piped, false, {256 * kKiB, 512 * kKiB, 1024 * kKiB, 2048 * kKiB}},
    {"piped_collect_nt", piped_collect_nt, false, {512 * kKiB, 1024 * kKiB}},
    {"piped_result_nt", piped_result_nt, false, {512 * kKiB, 1024 * kKiB}},
    {"piped_tiles_32", piped_tiles_32, false, {512 * kKiB, 1024 * kKiB}},
    {"piped_tiles_256", piped_tiles_256, false, {512 * kKiB, 1024 * kKiB}},
    {"piped_stage_nt", piped_stage_nt, false, {512 * kKiB, 1024 * kKiB}},
    {"direct", direct, true, {32 * kKiB, 256 * kKiB}},
    {"direct_nt", direct_nt, true, {32 * kKiB, 256 * kKiB}},
};

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void fill(Rank& r) {
  for (std::size_t i = 0; i < r.count; ++i) r.mine[i] = static_cast<float>(i % 1000) + static_cast<float>(r.rank);
}

bool is_right(const Rank& r) {
  const float ranks = static_cast<float>(r.size * (r.size - 1) / 2), times = static_cast<float>(r.size);
  for (std::size_t i = 0; i < r.count; ++i) {
    if (r.mine[i] != static_cast<float>(i % 1000) * times + ranks) return false;
  }
  return true;
}

struct Series {
  const Variant* variant;
  std::size_t block;
  std::vector<double> times;
};

// All variants in turn, round by round, so that a busy spell hits all of them.
void measure(Rank& r, std::vector<Series>& all, int rounds) {
  for (auto& series : all) {
    r.work_on(series.variant->on_shared_memory);
    fill(r);
    r.meet();
    series.variant->run(r, series.block);
    r.meet();
    if (!is_right(r)) {
      std::fprintf(stderr, "%s: wrong sums on rank %d\n", series.variant->name, r.rank);
      std::_Exit(1);
    }
    std::memset(r.mine, 0, r.count * 4);
  }
  for (int round = 0; round < rounds; ++round) {
    for (auto& series : all) {
      r.work_on(series.variant->on_shared_memory);
      for (int i = 0; i < 3; ++i) {
        // As training does, the tensor is new each time; a rank's part would never leave its cache otherwise.
        for (std::size_t k = 0; k < r.count; ++k) r.mine[k] *= 0.5f;
        r.meet();
        const double start = now_us();
        series.variant->run(r, series.block);
        if (i > 0) series.times.push_back(now_us() - start);
      }
    }
  }
}

void work(Board& board, int rank, int size, std::size_t bytes, int rounds, const char* only) {
  Rank r(board, rank, size, bytes);
  std::vector<Series> all;
  for (const Variant& variant : kVariants) {
    for (std::size_t block : variant.blocks) {
      if (only == nullptr || std::strcmp(only, variant.name) == 0) all.push_back({&variant, block, {}});
    }
  }
  measure(r, all, rounds);
  if (rank != 0) return;
  for (auto& series : all) {
    std::sort(series.times.begin(), series.times.end());
    const double median = series.times[series.times.size() / 2];
    std::printf("%-18s np=%d %9zu bytes, block %5zu KiB: median %9.1f us, fastest %9.1f us, %6.2f GB/s\n",
                series.variant->name, size, bytes, series.block / kKiB, median, series.times.front(),
                static_cast<double>(bytes) / median / 1000);
  }
}

int run(int size, std::size_t bytes, int rounds, const char* only) {
  void* at = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return 1;
  auto board = new (at) Board{};
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      work(*board, rank, size, bytes, rounds, only);
      std::fflush(stdout);
      ::_exit(0);
    }
    children.push_back(child);
  }
  int failed = 0;
  for (pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    failed |= status;
  }
  return failed != 0;
}

}  // namespace
}  // namespace roda::shm_bench

int main(int argc, char** argv) {
  const int size = argc > 1 ? std::atoi(argv[1]) : 2;
  const std::size_t bytes = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : std::size_t{64} << 20;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 5;
  if (size < 2 || size > roda::shm_bench::kMaxRanks || bytes < 64 || bytes % 64 != 0 || rounds < 1) {
    std::fprintf(stderr, "usage: shm_bench [ranks] [bytes, a multiple of 64] [rounds] [variant]\n");
    return 2;
  }
  return roda::shm_bench::run(size, bytes, rounds, argc > 4 ? argv[4] : nullptr);
}
