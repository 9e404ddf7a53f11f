// gpu_bandwidth: how fast buckets are packed and unpacked, beside the card's own copy of as many bytes in the same run,
// and how long one launch takes. Prints lines of `name value unit`; medians of several rounds. With --tensors it prints
// the buckets instead, a line of `MODEL ELEMENTS...` each.
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "plugins/devices/cuda/cuda_device.h"
#include "tests/gpu/models.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 15;
constexpr int kRepeats = 10;

const roda_device& device = *roda_cuda_device();
roda_error error{};

void demand(int code, const char* what) {
  if (code == RODA_OK) return;
  std::fprintf(stderr, "%s: %s\n", what, error.message);
  std::exit(1);
}

const char* knob(void*, const char* name) { return ::getenv(name); }

// Waits for what is on the stream.
void finish(void* stream) {
  void* event = nullptr;
  demand(device.event_record(stream, &event, &error), "event_record");
  int code = RODA_OK;
  while ((code = device.event_test(event, &error)) == RODA_IN_PROGRESS) {
  }
  demand(code, "event_test");
  device.event_release(event);
}

// Seconds of one call, when kRepeats of them are put on the stream one behind the other.
double seconds(void* stream, const std::function<void()>& call) {
  std::vector<double> rounds;
  for (int round = 0; round < kRounds + 2; ++round) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < kRepeats; ++i) call();
    finish(stream);
    rounds.push_back(std::chrono::duration<double>(Clock::now() - start).count() / kRepeats);
  }
  rounds.erase(rounds.begin(), rounds.begin() + 2);  // warm-up
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
  return rounds[kRounds / 2];
}

// Memory of one measurement.
class Arena {
 public:
  Arena() = default;
  ~Arena() {
    for (roda_memory& memory : all_) device.free(&memory);
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  char* alloc(std::size_t bytes) {
    all_.emplace_back();
    demand(device.alloc(0, bytes, &all_.back(), &error), "alloc");
    return static_cast<char*>(all_.back().address);
  }

 private:
  std::vector<roda_memory> all_;
};

void measure(const char* model, const std::vector<std::size_t>& sizes, void* stream) {
  Arena arena;
  std::vector<roda_pack_item> items;
  std::size_t total = 0;
  for (const std::size_t elements : sizes) {
    const std::size_t bytes = elements * sizeof(float);
    items.push_back({arena.alloc(bytes), total, bytes});
    total += (bytes + 63) / 64 * 64;
  }
  char *buffer = arena.alloc(total), *other = arena.alloc(total);
  const double copied = seconds(stream, [&] { demand(device.copy(other, buffer, total, stream, &error), "copy"); });
  const auto report = [&](const char* what, double taken, double moved) {
    const double rate = moved / taken, copy_rate = 2.0 * static_cast<double>(total) / copied;
    std::printf("%s.%s %.1f GB/s\n%s.%s.of_copy %.1f %%\n", model, what, rate / 1e9, model, what,
                100 * rate / copy_rate);
  };
  std::printf("%s.tensors %zu\n%s.bytes %zu\n%s.copy %.1f GB/s\n", model, items.size(), model, total, model,
              2.0 * static_cast<double>(total) / copied / 1e9);
  const auto all = static_cast<double>(total);
  report("pack",
         seconds(stream, [&] { demand(device.pack(buffer, items.data(), items.size(), stream, &error), "pack"); }),
         2 * all);
  report("unpack",
         seconds(stream, [&] { demand(device.unpack(buffer, items.data(), items.size(), stream, &error), "unpack"); }),
         2 * all);
  report("pack_scaled",
         seconds(stream,
                 [&] {
                   demand(device.pack_scaled(buffer, items.data(), items.size(), RODA_FLOAT32, 0.5, stream, &error),
                          "pack_scaled");
                 }),
         2 * all);
  report("reduce",
         seconds(stream,
                 [&] {
                   demand(device.reduce(buffer, buffer, other, total / 4, RODA_FLOAT32, RODA_SUM, stream, &error),
                          "reduce");
                 }),
         3 * all);
}

// The host's time for one bucket of small tensors, and the time until the GPU is through with it.
void measure_launch(void* stream) {
  Arena arena;
  char *tensors = arena.alloc(64 * 1024), *buffer = arena.alloc(64 * 1024);
  std::vector<roda_pack_item> items;
  for (std::size_t i = 0; i < 64; ++i) items.push_back({tensors + i * 1024, i * 1024, 1024});
  std::vector<double> calls, whole;
  for (int i = 0; i < 200; ++i) {
    const Clock::time_point start = Clock::now();
    demand(device.pack(buffer, items.data(), items.size(), stream, &error), "pack");
    calls.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    finish(stream);
    whole.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  for (auto* times : {&calls, &whole}) std::nth_element(times->begin(), times->begin() + 100, times->end());
  std::printf("bucket.call %.2f us\nbucket.done %.2f us\n", calls[100] * 1e6, whole[100] * 1e6);
}

void print_tensors(const char* model, const std::vector<std::size_t>& sizes) {
  std::printf("%s", model);
  for (const std::size_t elements : sizes) std::printf(" %zu", elements);
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--tensors") == 0) {
    print_tensors("resnet50", roda::gpu_test::resnet50());
    print_tensors("gpt2", roda::gpu_test::gpt2());
    return 0;
  }
  error.struct_size = sizeof error;
  roda_host host{};
  host.struct_size = sizeof host;
  host.knob = knob;
  demand(device.probe(&host, &error), "probe");
  std::printf("# %s\n", device.description);
  void* stream = nullptr;
  demand(device.stream_create(0, &stream, &error), "stream_create");
  measure("resnet50", roda::gpu_test::resnet50(), stream);
  measure("gpt2", roda::gpu_test::gpt2(), stream);
  measure_launch(stream);
  return 0;
}
