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
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
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

// Calls an entry, as `call(roda_error*)`, that has to succeed.
template <typename Call>
void must(const std::string& what, Call&& call) {
  roda_error error = make_error();
  const int32_t code = call(&error);
  CHECK(code == RODA_OK, "%s: %d %s", what.c_str(), code, error.message);
}

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
  Buffer(const Placement& placement, std::vector<char> data) : placement_(placement), host_(std::move(data)) {
    if (placement_.device == nullptr) return;
    memory_.struct_size = sizeof memory_;
    must("alloc of " + std::to_string(host_.size()) + " bytes on device " + std::to_string(placement_.number),
         [&](roda_error* e) { return placement_.device->alloc(placement_.number, host_.size(), &memory_, e); });
    if (host_.empty()) return;
    must("a copy to device " + std::to_string(placement_.number), [&](roda_error* e) {
      return placement_.device->copy(memory_.address, host_.data(), host_.size(), nullptr, e);
    });
  }
  Buffer(const Placement& placement, std::size_t bytes, char fill = 'x')
      : Buffer(placement, std::vector<char>(bytes, fill)) {}
  ~Buffer() {
    if (memory_.owner != nullptr) placement_.device->free(&memory_);
  }
  Buffer(Buffer&& other) noexcept
      : placement_(other.placement_), host_(std::move(other.host_)), memory_(std::exchange(other.memory_, {})) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  char* data() { return placement_.device == nullptr ? host_.data() : static_cast<char*>(memory_.address); }
  std::size_t size() const { return host_.size(); }
  // What it lies in; null: plain host memory.
  roda_memory* memory() { return placement_.device == nullptr ? nullptr : &memory_; }
  // What is in it now.
  const std::vector<char>& read() {
    if (placement_.device == nullptr || host_.empty()) return host_;
    must("a copy from device " + std::to_string(placement_.number), [&](roda_error* e) {
      return placement_.device->copy(host_.data(), memory_.address, host_.size(), nullptr, e);
    });
    return host_;
  }

 private:
  Placement placement_;
  std::vector<char> host_;  // the range itself, or the last copy that was read
  roda_memory memory_{};
};

// One rank of a case.
class Env {
 public:
  // With a device the data lie on it, each rank's on the one of its own number.
  Env(const roda_transport& table, const roda_host* host, World* world, int rank, const roda_device* device = nullptr)
      : table_(table),
        host_(host),
        world_(world),
        rank_(rank),
        placement_{device, rank},
        deadline_ns_(now_ns() + case_seconds() * std::int64_t{1'000'000'000}) {
    open_context();
  }
  ~Env() { close_context(); }
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
  void open_context() {
    must("context_create", [this](roda_error* e) { return table_.context_create(host_, &context_, e); });
    capabilities_ = table_.context_capabilities(context_);
    CHECK((capabilities_ & ~table_.capabilities) == 0, "the context has capabilities that the table does not announce");
  }
  void close_context();

  // Progress, and sleeping on the descriptor while there is none, until `done` says true. Fails the case after its
  // deadline, and says so if the descriptor did not wake it although `done` had become true.
  void drive(const std::function<bool()>& done, const char* what);
  // As drive, but by polling with short pauses: for what no descriptor announces. Needs no context.
  void poll_until(const std::function<bool()>& done, const char* what);
  // Among the first `count` ranks, all if 0; makes progress while it waits, as an engine does.
  void barrier(int count = 0) {
    settle();
    // As an engine's own thread does: what another rank's messages need to leave may be this one's answer.
    const auto progress = [this] {
      if (context_ != nullptr) table_.progress(context_);
    };
    if (world_->barrier(rank_, count == 0 ? size() : count, deadline_ns_, progress)) return;
    check_deadline("the other ranks");
  }
  // Progress until what has ended needs none any more. Part of barrier(), and of destroying a group.
  void settle() {
    drive([this] { return is_settled(); }, "what ended to leave this process");
  }

 private:
  bool is_settled() {
    if (context_ == nullptr || table_.settle == nullptr) return true;
    const int32_t code = table_.settle(context_);
    CHECK(code == RODA_OK || code == RODA_AGAIN, "settle returned %d", code);
    return code == RODA_OK;
  }
  void sleep(const std::function<bool()>& done, const char* what);
  void check_deadline(const char* what) const {
    if (world_->someone_failed())
      throw CaseFailure(std::string("stopped: another rank failed while this one waited for ") + what);
    CHECK(now_ns() < deadline_ns_, "%s: not over after %d s", what, case_seconds());
  }

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
  struct Spec {
    std::vector<int> members;  // world ranks; empty: all
    std::uint64_t generation = 1;
    std::uint64_t timeout_ns = 0;
    bool form = true;  // wait until it is formed
  };
  // By way of the other constructor, so that one that fails to form is destroyed.
  Group(Env& env, const std::string& name, const Spec& spec) : Group(env, spec, name) {
    if (!spec.form) return;
    const Result result = form();
    CHECK(result.code == RODA_OK, "forming group %s: %d %s", name_.c_str(), result.code, result.error.message);
  }
  Group(Env& env, const std::string& name) : Group(env, name, Spec{}) {}
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
  Result form() {
    Result result{RODA_IN_PROGRESS, make_error()};
    const auto tested = [&] { return (result.code = test(&result.error)) != RODA_IN_PROGRESS; };
    env_.poll_until(tested, "forming a group");
    return result;
  }

  // Retries while the transport answers RODA_AGAIN, with progress in between. A null request is done.
  // `memory`: what the range lies in; null: plain host memory.
  roda_request* send(int peer, std::uint64_t tag, const void* data, std::size_t bytes,
                     const roda_memory* memory = nullptr) {
    return begin("send", env_.table().send, peer, tag, data, bytes, memory);
  }
  roda_request* receive(int peer, std::uint64_t tag, void* data, std::size_t bytes,
                        const roda_memory* memory = nullptr) {
    return begin("recv", env_.table().recv, peer, tag, data, bytes, memory);
  }
  roda_request* get(int peer, std::uint32_t slot, std::size_t offset, void* to, std::size_t bytes) {
    return begin("get", env_.table().get, peer, slot, offset, to, bytes);
  }
  roda_request* put(int peer, std::uint32_t slot, std::size_t offset, const void* from, std::size_t bytes) {
    return begin("put", env_.table().put, peer, slot, offset, from, bytes);
  }
  roda_request* start(const roda_collective_args& args) {
    return begin(roda_collective_name(args.collective), env_.table().collective_start, &args);
  }
  void signal(int peer, std::uint32_t index, std::uint64_t value) {
    retry("signal", [&](roda_error* error) { return env_.table().signal(group_, peer, index, value, error); });
  }
  void wait_signal(int peer, std::uint32_t index, std::uint64_t value) {
    env_.drive([&] { return env_.table().signal_value(group_, peer, index) >= value; }, "a signal");
  }

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
  void pass_around(std::uint64_t tag, const void* out, void* in, std::size_t bytes) {
    roda_request* received = receive(left(), tag, in, bytes);
    wait({received, send(right(), tag, out, bytes)});
  }
  // Its rank in a message to the right: the left neighbour must be heard.
  void check_it_talks() {
    if (!env_.has(RODA_CAP_P2P) || size() < 2) return;
    int in = -1;
    pass_around(1, &rank_, &in, sizeof in);
    CHECK(in == left(), "group %s: %d came from rank %d", key_.c_str(), in, left());
  }
  // The transport's own memory; given back by memory_free.
  roda_memory allocate(std::size_t bytes) {
    roda_memory memory{};
    memory.struct_size = sizeof memory;
    must("memory_alloc", [&](roda_error* e) { return env_.table().memory_alloc(group_, bytes, &memory, e); });
    CHECK(memory.address != nullptr && memory.length >= bytes, "memory_alloc(%zu) gave %zu bytes", bytes,
          memory.length);
    return memory;
  }

  // Until it ended; RODA_OK is demanded by wait(), anything accepted by finish().
  void wait(roda_request* request) { wait(std::vector<roda_request*>{request}); }
  void wait(std::vector<roda_request*> requests);
  Result finish(roda_request* request);

  void abort(int32_t code, int world_rank, const char* text) {
    roda_error cause = make_error();
    static_cast<void>(Status(code, text, world_rank).to(&cause));
    env_.table().group_abort(group_, &cause);
  }
  bool quiesced(const void* base, std::size_t bytes) const { return env_.table().quiesced(group_, base, bytes) != 0; }
  void destroy() {
    if (group_ == nullptr) return;
    if (std::uncaught_exceptions() == 0) env_.settle();
    env_.table().group_destroy(group_);
    group_ = nullptr;
  }

 private:
  friend class Env;
  static int32_t exchange_put(void* self, const char* key, const void* value, size_t bytes, roda_error* error) {
    auto* group = static_cast<Group*>(self);
    const bool is_legal = bytes <= 65536 && group->env_.world().put(group->key_, group->rank_, key, value, bytes);
    if (is_legal) return RODA_OK;
    std::snprintf(error->message, sizeof error->message, "the kit's exchange takes no %zu bytes under '%s'", bytes,
                  key);
    return error->code = RODA_ERR_INVALID;
  }
  static int32_t exchange_get(void* self, int32_t rank, const char* key, void* value, size_t* bytes,
                              roda_error* error) {
    auto* group = static_cast<Group*>(self);
    const int32_t code = group->env_.world().get(group->key_, rank, key, value, bytes);
    if (code < 0) std::snprintf(error->message, sizeof error->message, "'%s' is longer than the room for it", key);
    return code;
  }
  Group(Env& env, Spec spec, const std::string& name);  // not formed
  template <typename Call>
  void retry(const char* what, Call&& call) {
    must(what, [&](roda_error* error) {
      int32_t code = RODA_AGAIN;
      env_.poll_until([&] { return (code = call(error)) != RODA_AGAIN; }, what);
      return code;
    });
  }
  template <typename Entry, typename... Args>
  roda_request* begin(const char* what, Entry entry, Args... args) {
    roda_request* request = nullptr;
    retry(what, [&](roda_error* error) { return entry(group_, args..., &request, error); });
    return request;
  }

  Env& env_;
  std::vector<std::int32_t> members_;
  int rank_ = -1;
  std::string name_;
  std::string key_;
  roda_group_desc desc_{};
  roda_group* group_ = nullptr;
};

struct Case {
  const char* name;     // "p2p.sizes"
  const char* summary;  // one line
  std::uint64_t needs;  // capability bits, all of them
  int min_ranks;
  std::function<void(Env& env)> run;
  bool kills_a_rank = false;  // for processes only
};

// In the order they run, by subject and all together.
extern const std::vector<Case> kGroupCases, kMessageCases, kOneSidedCases, kNativeCases, kSleepCases, kAbortCases,
    kDeathCases;
const std::vector<Case>& all_cases();

// Deterministic bytes, different for each (from, to, tag).
std::vector<char> pattern(std::size_t bytes, int from, int to, std::uint64_t tag);
// Arguments of a collective: a sum of float32 unless told otherwise, over the memory under test; each with a tag of its
// own.
roda_collective_args arguments(Env& env, int collective, int dtype = RODA_FLOAT32, int op = RODA_SUM);

}  // namespace roda::conformance
