// What a case is written with: a rank's environment, its groups, and checks that name what went wrong.
//
//   void sizes(Env& env) {
//     Group group(env, "sizes");                      // formed when the constructor returns
//     auto sent = group.send(peer, tag, data, bytes);
//     group.wait(sent);                               // drives the transport the way the engine does, with sleeps
//     CHECK(data == expected, "at %zu bytes", bytes);
//   }
//
// Each rank runs a case on one thread, in a process of its own unless the transport reaches only threads. A failed
// check throws; everything that waits has a deadline.
#pragma once

#include <roda/abi/device.h>
#include <roda/abi/transport.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "plugins/base/status.h"
#include "plugins/conformance/world.h"

namespace roda::conformance {

class CaseFailure : public std::runtime_error {
  using runtime_error::runtime_error;
};
class CaseSkipped : public std::runtime_error {
  using runtime_error::runtime_error;
};

[[noreturn]] __attribute__((format(printf, 3, 4))) void fail_at(const char* file, int line, const char* format, ...);
#define CHECK(condition, ...)                                                        \
  do {                                                                               \
    if (!(condition)) ::roda::conformance::fail_at(__FILE__, __LINE__, __VA_ARGS__); \
  } while (false)

// How long a case may take: long enough for any machine that is merely slow. Set before the first case where it is not,
// as on an emulated machine.
inline int& case_seconds() {
  static int seconds = 40;
  return seconds;
}

// Where a rank's data lie.
struct Placement {
  const roda_device* device = nullptr;  // null: host memory
  int number = 0;                       // of the device, for this rank

  int memory_kind() const { return device == nullptr ? int{RODA_MEMORY_HOST} : device->memory_kind; }
};

// A range that begins as a copy of some bytes. One thread at a time; throws CaseFailure.
class Buffer {
 public:
  Buffer(const Placement& placement, std::vector<char> data);
  Buffer(const Placement& placement, std::size_t bytes, char fill = 'x')
      : Buffer(placement, std::vector<char>(bytes, fill)) {}
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  char* data() { return placement_.device == nullptr ? host_.data() : static_cast<char*>(memory_.address); }
  std::size_t size() const { return host_.size(); }
  // What it lies in; null: plain host memory.
  roda_memory* memory() { return placement_.device == nullptr ? nullptr : &memory_; }
  // What is in it now.
  const std::vector<char>& read();

 private:
  Placement placement_;
  std::vector<char> host_;  // the range itself, or the last copy that was read
  roda_memory memory_{};
};

// One rank of a case.
class Env {
 public:
  // With a device the data lie on it, each rank's on the one of its own number.
  Env(const roda_transport& table, const roda_host* host, World* world, int rank, const roda_device* device = nullptr);
  ~Env();
  Env(const Env&) = delete;
  Env& operator=(const Env&) = delete;

  const roda_transport& table() const { return table_; }
  World& world() { return *world_; }
  int rank() const { return rank_; }
  int size() const { return world_->size(); }
  roda_context* context() const { return context_; }
  const Placement& placement() const { return placement_; }
  bool has(std::uint64_t capability) const { return (capabilities_ & capability) == capability; }

  // Creates the context, which the constructor has done already, and destroys it; for cases about contexts.
  void open_context();
  void close_context();

  // Progress, and sleeping on the descriptor while there is none, until `done` says true. Fails the case after its
  // deadline, and says so if the descriptor did not wake it although `done` had become true.
  void drive(const std::function<bool()>& done, const char* what);
  // As drive, but by polling with short pauses: for what no descriptor announces. Needs no context.
  void poll_until(const std::function<bool()>& done, const char* what);
  // Among the first `count` ranks, all if 0; makes progress while it waits, as an engine does.
  void barrier(int count = 0);
  // Progress until what has ended needs none any more. Part of barrier(), and of destroying a group.
  void settle();

 private:
  bool is_settled();
  void sleep(const std::function<bool()>& done, const char* what);
  void check_deadline(const char* what) const;

  const roda_transport& table_;
  const roda_host* host_;
  World* world_;
  int rank_;
  Placement placement_;
  roda_context* context_ = nullptr;
  std::uint64_t capabilities_ = 0;
  std::int64_t deadline_ns_;
};

// What ended: a code and the transport's words.
struct Result {
  int32_t code = RODA_OK;
  roda_error error{};
};

class Group {
 public:
  struct Options {
    std::vector<int> members;  // world ranks; empty: all
    std::uint64_t generation = 1;
    std::uint64_t timeout_ns = 0;
    bool form = true;  // wait until it is formed
  };
  Group(Env& env, const std::string& name, const Options& options);
  Group(Env& env, const std::string& name) : Group(env, name, Options{}) {}
  ~Group() noexcept(false);  // settling is checked like all else
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  // The neighbours in a ring.
  int right() const { return (rank_ + 1) % size(); }
  int left() const { return (rank_ + size() - 1) % size(); }
  roda_group* get() const { return group_; }
  int32_t test(roda_error* error) { return env_.table().group_test(group_, error); }
  // Until it is formed or failed.
  Result form();

  // Retries while the transport answers RODA_AGAIN, with progress in between. A null request is done.
  // `memory`: what the range lies in; null: plain host memory.
  roda_request* send(int peer, std::uint64_t tag, const void* data, std::size_t bytes,
                     const roda_memory* memory = nullptr);
  roda_request* receive(int peer, std::uint64_t tag, void* data, std::size_t bytes,
                        const roda_memory* memory = nullptr);
  roda_request* get(int peer, std::uint32_t slot, std::size_t offset, void* to, std::size_t bytes);
  roda_request* put(int peer, std::uint32_t slot, std::size_t offset, const void* from, std::size_t bytes);
  roda_request* start(const roda_collective_args& args);
  void signal(int peer, std::uint32_t index, std::uint64_t value);
  void wait_signal(int peer, std::uint32_t index, std::uint64_t value);

  // `visit(peer)` for every other member, from 0 up.
  template <typename Visit>
  void for_each_peer(const Visit& visit) const {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank_) visit(peer);
    }
  }
  void signal_all(std::uint32_t index, std::uint64_t value) {
    for_each_peer([&](int peer) { signal(peer, index, value); });
  }
  void wait_signal_of_all(std::uint32_t index, std::uint64_t value) {
    for_each_peer([&](int peer) { wait_signal(peer, index, value); });
  }
  // Sends `out` to the right and gets as much from the left, to the end.
  void pass_around(std::uint64_t tag, const void* out, void* in, std::size_t bytes);
  // Its rank in a message to the right: the left neighbour must be heard.
  void check_it_talks();
  // The transport's own memory; given back by memory_free.
  roda_memory allocate(std::size_t bytes);

  // Until it ended; RODA_OK is demanded by wait(), anything accepted by finish().
  void wait(roda_request* request) { wait(std::vector<roda_request*>{request}); }
  void wait(std::vector<roda_request*> requests);
  Result finish(roda_request* request);

  void abort(int32_t code, int world_rank, const char* text);
  bool quiesced(const void* base, std::size_t bytes) const { return env_.table().quiesced(group_, base, bytes) != 0; }
  void destroy();

 private:
  friend class Env;
  static int32_t exchange_put(void* self, const char* key, const void* value, size_t bytes, roda_error* error);
  static int32_t exchange_get(void* self, int32_t rank, const char* key, void* value, size_t* bytes, roda_error* error);
  Group(Env& env, Options options, const std::string& name);  // not formed
  template <typename Start>
  roda_request* retry(const char* what, Start&& start);

  Env& env_;
  std::vector<std::int32_t> members_;
  int rank_ = -1;
  std::string name_;
  std::string key_;
  roda_group_desc desc_{};
  roda_group* group_ = nullptr;
};

enum CaseFlags : unsigned {
  kPlain = 0,
  kKillsARank = 1u << 0,     // processes only
  kFaultTolerant = 1u << 1,  // only for transports that announce it
};

struct Case {
  const char* name;     // "p2p.sizes"
  const char* summary;  // one line
  std::uint64_t needs;  // capability bits, all of them
  int min_ranks;
  unsigned flags;
  std::function<void(Env& env)> run;
};

// In the order they run, by subject and all together.
extern const std::vector<Case> kGroupCases, kMessageCases, kOneSidedCases, kMemoryCases, kNativeCases, kSleepCases,
    kAbortCases, kDeathCases, kLeakCases;
const std::vector<Case>& all_cases();

// Deterministic bytes, different for each (from, to, tag).
std::vector<char> pattern(std::size_t bytes, int from, int to, std::uint64_t tag);
// Of a sum of float32 unless it says otherwise, over the memory under test; each with a tag of its own.
roda_collective_args arguments(Env& env, int collective, int dtype = RODA_FLOAT32, int op = RODA_SUM);

}  // namespace roda::conformance
