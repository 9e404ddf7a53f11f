#include "tests/unit/execute/world.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <thread>

#include "plugins/devices/cpu/cpu_device.h"
#include "transports/loop/loop.h"

namespace roda::execute::testing {
namespace {

void log(void*, int32_t, const char*, const char*) {}
// Every operation takes the retry path now and then.
const char* knob(void*, const char* name) {
  return std::strcmp(name, "RODA_TEST_LOOP_AGAIN_EVERY") == 0 ? "7" : nullptr;
}
int32_t reduce(void*, void* dst, const void* a, const void* b, size_t count, int32_t dtype, int32_t op) {
  return roda_cpu_device()->reduce(dst, a, b, count, dtype, op, nullptr, nullptr);
}
void copy(void*, void* dst, const void* src, size_t bytes) {
  roda_cpu_device()->copy(dst, src, bytes, nullptr, nullptr);
}

}  // namespace

const roda_host* test_host() {
  static const roda_host host = {sizeof(roda_host), RODA_ABI_VERSION, nullptr, log, knob, reduce, copy};
  return &host;
}

roda_exchange Exchange::end(int rank) {
  End& end = ends_[static_cast<std::size_t>(rank)];
  end = {this, rank};
  return {sizeof(roda_exchange), 0, &end, put, get};
}

int32_t Exchange::put(void* self, const char* key, const void* value, size_t bytes, roda_error*) {
  const End& end = *static_cast<End*>(self);
  const std::lock_guard<std::mutex> lock(end.exchange->mutex_);
  end.exchange->values_[{end.rank, key}].assign(static_cast<const char*>(value), bytes);
  return RODA_OK;
}

int32_t Exchange::get(void* self, int32_t rank, const char* key, void* value, size_t* bytes, roda_error*) {
  const End& end = *static_cast<End*>(self);
  const std::lock_guard<std::mutex> lock(end.exchange->mutex_);
  const auto found = end.exchange->values_.find({rank, key});
  if (found == end.exchange->values_.end()) return RODA_IN_PROGRESS;
  if (found->second.size() > *bytes) return RODA_ERR_INVALID;
  *bytes = found->second.size();
  std::memcpy(value, found->second.data(), *bytes);
  return RODA_OK;
}

Status Rank::finish(Stage& stage) {
  bool done = false;
  Status status = stage.test(&done);
  while (!done) {
    if (context.progress() == 0) std::this_thread::yield();
    status = stage.test(&done);
  }
  return status;
}

Status Rank::acquire(int collective, const std::string& algorithm, int root, StageHandle* stage) {
  const auto* found = schedule::find_algorithm(static_cast<schedule::Collective>(collective), algorithm);
  EXPECT_TRUE(found != nullptr || algorithm == schedule::kNative) << algorithm;
  const auto make = [&](std::unique_ptr<Stage>* made) -> Status {
    schedule::Program program;
    if (found == nullptr) {
      program = schedule::native_program(static_cast<schedule::Collective>(collective), rank, size, root);
    } else if (const auto wrong = schedule::compile(*found, rank, size, root, &program)) {
      return Status::unsupported(*wrong);
    }
    return make_stage(std::make_shared<const schedule::Program>(std::move(program)), group, options, made);
  };
  return stages[{collective, algorithm, root}].take(make, stage);
}

Status Rank::run(const std::string& algorithm, const StageArgs& args) {
  StageHandle stage;
  RODA_RETURN_IF_ERROR(acquire(args.collective, algorithm, args.root, &stage));
  RODA_RETURN_IF_ERROR(stage->start(args));
  return finish(*stage);
}

void run_world(int size, const ExecuteOptions& options, const std::function<void(Rank&)>& body,
               const roda_transport* transport) {
  if (transport == nullptr) transport = roda_loop_transport();
  static std::atomic<int> worlds{0};
  const std::string name = "world" + std::to_string(++worlds);
  Exchange exchange(size);
  std::barrier<> together(size);
  std::vector<std::int32_t> world_ranks;
  for (int r = 0; r < size; ++r) world_ranks.push_back(r);
  const auto thread = [&](int rank) {
    std::unique_ptr<TransportContext> context;
    ASSERT_TRUE(TransportContext::create(transport, test_host(), &context).ok());
    std::unique_ptr<TransportGroup> group;
    ASSERT_TRUE(TransportGroup::create(*context, {name, rank, world_ranks, 1, 0, exchange.end(rank)}, &group).ok());
    for (bool ready = false; !ready;) {
      const Status status = group->test(&ready);
      ASSERT_TRUE(status.ok()) << status.message();
      if (!ready && context->progress() == 0) std::this_thread::yield();
    }
    {
      Rank self{rank, size, *context, *group, options};
      together.arrive_and_wait();  // a fault of the body's is not to meet who forms the group still
      body(self);
      together.arrive_and_wait();
    }
    group.reset();
  };
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) threads.emplace_back(thread, r);
  for (auto& t : threads) t.join();
}

const roda_transport* loop_with_far_ranks() {
  static const roda_transport table = [] {
    roda_transport loop = *roda_loop_transport();
    loop.store_cost = [](roda_group*, std::int32_t peer) -> std::uint32_t { return peer % 2 == 1 ? 1000 : 100; };
    return loop;
  }();
  return &table;
}

ExecuteOptions tiny_options() {
  ExecuteOptions options;
  options.slice_bytes = 1024;
  options.slices_in_flight = 3;
  options.segment_bytes = 128;
  options.block_bytes = 1024;
  options.get_bytes = 128;
  options.far_bytes = 1;
  options.test_bytes = 512;
  return options;
}

}  // namespace roda::execute::testing
