// N ranks as threads of the test over one transport.
#pragma once

#include <roda/abi/host.h>
#include <roda/abi/transport.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/execute/group.h"
#include "core/execute/stage.h"

namespace roda::execute::testing {

// Where the ranks of one world leave their addresses for each other. Thread-safe.
class Exchange {
 public:
  explicit Exchange(int size) : ends_(static_cast<std::size_t>(size)) {}
  // What `rank` puts and gets through.
  roda_exchange end(int rank);

 private:
  struct End {
    Exchange* exchange;
    int rank;
  };
  static int32_t put(void* self, const char* key, const void* value, size_t bytes, roda_error* error);
  static int32_t get(void* self, int32_t rank, const char* key, void* value, size_t* bytes, roda_error* error);

  std::mutex mutex_;
  std::map<std::pair<int, std::string>, std::string> values_;
  std::vector<End> ends_;
};

// Host services over the CPU device.
const roda_host* test_host();

// One rank inside its thread.
struct Rank {
  int rank;
  int size;
  TransportContext& context;
  TransportGroup& group;
  const ExecuteOptions& options;
  std::map<std::tuple<int, std::string, int>, Stages> stages = {};  // by collective, algorithm and root

  // Tests the stage until it is done, with progress in between.
  Status finish(Stage& stage);
  // A stage that runs the algorithm of that name, or "native".
  Status acquire(int collective, const std::string& algorithm, int root, StageHandle* stage);
  // Acquires, starts and finishes.
  Status run(const std::string& algorithm, const StageArgs& args);
};

// Runs `body` on every rank of a fresh world and joins. `transport`: the loop by default. Groups are destroyed when all
// ranks have left the body.
void run_world(int size, const ExecuteOptions& options, const std::function<void(Rank&)>& body,
               const roda_transport* transport = nullptr);

// The loop, where every odd rank is far from every other rank.
const roda_transport* loop_with_far_ranks();

// Sizes so small that a few hundred bytes take the many-slice, many-segment and many-block paths.
ExecuteOptions tiny_options();

}  // namespace roda::execute::testing
