#include "tools/perf/peers/peer.h"

#include <roda/abi/types.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tools/common/names.h"
#include "tools/common/sizes.h"
#include "tools/perf/pattern.h"
#include "tools/perf/statistics.h"

namespace roda::peers {

namespace {

// The text behind "--name=", or null.
const char* value_of(const char* argument, const char* name) {
  const std::size_t length = std::strlen(name);
  return std::strncmp(argument, name, length) == 0 && argument[length] == '=' ? argument + length + 1 : nullptr;
}

[[noreturn]] void end(const char* what, const char* argument) {
  std::fprintf(stderr, "%s: %s\n", what, argument);
  std::exit(2);
}

bool is_right(int rank, int ranks, std::vector<float>* data, const Allreduce& allreduce) {
  perf::Pattern::input(RODA_FLOAT32, RODA_SUM, rank).fill(data->data(), 0, data->size());
  allreduce(data->data(), data->size());
  return perf::Pattern::reduced(RODA_FLOAT32, RODA_SUM, ranks).matches(data->data(), 0, data->size());
}

perf::Statistics time_size(const Request& request, int rank, std::vector<float>* data, const Allreduce& allreduce) {
  const perf::Repeats repeats = perf::repeats_for(data->size() * sizeof(float), request.warmup, request.iterations);
  perf::Pattern::input(RODA_FLOAT32, RODA_SUM, rank).fill(data->data(), 0, data->size());
  std::vector<double> times;
  for (int i = -repeats.warmup; i < repeats.timed; ++i) {
    const double start = perf::now_us();
    allreduce(data->data(), data->size());
    if (i >= 0) times.push_back(perf::now_us() - start);
  }
  return perf::summarise(std::move(times));
}

}  // namespace

Request parse_request(int argc, char** argv) {
  Request request;
  for (int i = 1; i < argc; ++i) {
    if (const char* sizes = value_of(argv[i], "--sizes")) {
      for (const std::string& text : tools::split_list(sizes)) {
        const auto size = tools::parse_size(text);
        if (!size || *size < sizeof(float)) end("no size", text.c_str());
        request.sizes.push_back(*size);
      }
    } else if (const char* warmup = value_of(argv[i], "--warmup")) {
      request.warmup = std::atoi(warmup);
    } else if (const char* iterations = value_of(argv[i], "--iterations")) {
      request.iterations = std::atoi(iterations);
    } else {
      end("unknown argument", argv[i]);
    }
  }
  return request;
}

int measure(const char* peer, const Request& request, int rank, int ranks, const Allreduce& allreduce, Result result) {
  bool all_right = true;
  for (const std::size_t bytes : request.sizes) {
    std::vector<float> data(bytes / sizeof(float));
    const bool right = result == Result::kNone || is_right(rank, ranks, &data, allreduce);
    all_right = all_right && right;
    const perf::Statistics times = time_size(request, rank, &data, allreduce);
    if (rank != 0) continue;
    std::printf(
        "{\"runs\": \"%s\", \"ranks\": %d, \"bytes\": %zu, \"median_us\": %.3f, \"p95_us\": %.3f, \"min_us\": %.3f, "
        "\"samples\": %d, \"check\": \"%s\"}\n",
        peer, ranks, bytes, times.median, times.p95, times.min, times.samples,
        !right                    ? "WRONG"
        : result == Result::kNone ? "none"
                                  : "ok");
    std::fflush(stdout);
  }
  return all_right ? 0 : 1;
}

}  // namespace roda::peers
