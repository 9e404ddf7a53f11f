// RAII and types over the C surface of one transport: a context and its groups.
//
// Threads: as the ABI says, every call comes from the holder of the engine's baton, except TransportGroup::abort, which
// any thread may call. Errors carry the transport's words. The roda_transport, the roda_host and the context outlive
// every group.
#pragma once

#include <roda/abi/host.h>
#include <roda/abi/transport.h>
#include <roda/abi/types.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "algorithms/schedule/schedule.h"
#include "plugins/base/fork_guard.h"
#include "plugins/base/invariant.h"
#include "plugins/base/mutex.h"
#include "plugins/base/status.h"

namespace roda::execute {

// Memory of a transport's own that a program has its tensors in: peers reach them where they lie, and nothing is
// staged.
// Held by the program and by the group that lent it; the last of them gives the memory back, the program by unmapping
// pages that the transport left to it (RODA_CAP_MEMORY_STAYS). Threads: give_back() any, once; the rest the holder of
// the engine's baton.
class LentMemory {
 public:
  // The memory that the program uses.
  void* data() const { return memory_.address; }
  void give_back() {
    // A child has no such memory, and something of its own may lie in its place.
    if (is_forked_child() || !is_last()) return;
    // The pages, too: other memory of the same segment may stay.
    ::madvise(memory_.address, memory_.length, MADV_REMOVE);
    ::munmap(memory_.address, memory_.length);
    delete this;
  }

 private:
  friend class TransportGroup;
  explicit LentMemory(const roda_memory& memory) : memory_(memory) {}
  ~LentMemory() = default;

  bool is_last() { return holders_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  bool was_given_back() const { return holders_.load(std::memory_order_acquire) == 1; }
  bool has(const void* base, std::size_t bytes) const {
    const auto* begin = static_cast<const char*>(memory_.address);
    const auto* at = static_cast<const char*>(base);
    return at >= begin && at + bytes <= begin + memory_.length;
  }

  roda_memory memory_;
  std::atomic<int> holders_{2};
};

// schedule::Needs bits that a transport's capabilities cover.
std::uint32_t needs_met(std::uint64_t capabilities);

// One use of a loaded transport by this process.
class TransportContext {
 public:
  // Fails with the transport's reason. Does not probe.
  static Status create(const roda_transport* transport, const roda_host* host, std::unique_ptr<TransportContext>* out);
  // Every group of it is gone.
  ~TransportContext();
  TransportContext(const TransportContext&) = delete;
  TransportContext& operator=(const TransportContext&) = delete;

  const roda_transport& transport() const { return *transport_; }
  const roda_host& host() const { return *host_; }
  roda_context* get() const { return context_; }
  const char* name() const { return transport_->name; }
  std::uint64_t capabilities() const { return capabilities_; }
  bool has(roda_capability capability) const { return (capabilities_ & capability) != 0; }
  roda_progress_mode progress_mode() const { return static_cast<roda_progress_mode>(transport_->progress_mode); }

  std::uint32_t needs_met() const { return execute::needs_met(capabilities_); }
  // Whether messages and registrations take that memory of the device on this machine. Asked once a group has formed.
  bool takes(int memory_kind, int device) const;
  // True when the collective runs natively for these.
  bool supports(int collective, int dtype, int op, int memory_kind) const;

  // Events handled, 0 when there was nothing to do. For when something runs here; settle() for when all has ended.
  int progress() {
    is_settled_ = transport_->settle == nullptr;
    return transport_->progress(context_);
  }
  // Whether what ended goes on without this process; as of the last settle().
  bool is_settled() const { return is_settled_; }
  // A step towards that. Events handled.
  int settle();
  // -1 in poll mode.
  int event_fd() { return transport_->event_fd(context_); }
  // True: the caller may sleep on event_fd() after testing once more. False: progress() first.
  bool arm() { return transport_->arm == nullptr || transport_->arm(context_) == RODA_OK; }
  void disarm() {
    if (transport_->disarm != nullptr) transport_->disarm(context_);
  }

 private:
  TransportContext(const roda_transport* transport, const roda_host* host, roda_context* context);

  const roda_transport* transport_;
  const roda_host* host_;
  roda_context* context_;
  std::uint64_t capabilities_;
  bool is_settled_ = true;
};

struct GroupOptions {
  std::string name;  // equal on all members, unique per group and generation
  int rank = 0;      // of this process in the group
  std::vector<std::int32_t> world_ranks;
  std::uint64_t generation = 0;
  std::uint64_t timeout_ns = 0;  // 0: none
  roda_exchange exchange{};      // what it points to outlives the group
  std::int32_t device = -1;      // that this member's memory lies on; -1: none in particular
  std::string address;           // where other hosts reach this one; empty: not known
};

// An ordered set of ranks that talk over one transport. Created at once, usable after test() said so.
class TransportGroup {
 public:
  // Starts forming the group.
  static Status create(TransportContext& context, GroupOptions options, std::unique_ptr<TransportGroup>* out);
  // Aborts first if it is still forming or has pending requests; never waits for peers.
  ~TransportGroup();
  TransportGroup(const TransportGroup&) = delete;
  TransportGroup& operator=(const TransportGroup&) = delete;

  // Drives the forming; cheap. *ready becomes true once; an error is final.
  Status test(bool* ready);
  // An error when the group, which is ready, was aborted or has lost a peer, as far as the transport knows.
  Status health();
  // Every pending and later operation ends with `cause` in bounded time. Any thread. The first cause stays.
  void abort(const Status& cause);
  // Whether abort() was called here, and its first cause. Any thread.
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  Status cause() const;

  int rank() const { return options_.rank; }
  int size() const { return static_cast<int>(options_.world_ranks.size()); }
  int world_rank(int rank) const { return options_.world_ranks[static_cast<std::size_t>(rank)]; }
  const std::string& name() const { return options_.name; }
  TransportContext& context() { return context_; }

  // Instances of one-sided schedules that can be in flight at once: StageArgs::slot < slots(). 0 without signals and
  // windows; schedules of messages and native collectives do not use slots. Known once test() was ready.
  std::uint32_t slots() const { return slots_; }

  // --- one call each of the ABI; `request` null on return: done already. Codes: RODA_OK, RODA_AGAIN or an error. ---
  int send(int peer, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory* memory,
           roda_request** request) {
    return table_->send(group_, peer, tag, data, bytes, memory, request, &error_);
  }
  int recv(int peer, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory* memory,
           roda_request** request) {
    return table_->recv(group_, peer, tag, data, bytes, memory, request, &error_);
  }
  int get(int peer, std::uint32_t window, std::size_t offset, void* destination, std::size_t bytes,
          roda_request** request) {
    return table_->get(group_, peer, window, offset, destination, bytes, request, &error_);
  }
  int put(int peer, std::uint32_t window, std::size_t offset, const void* source, std::size_t bytes,
          roda_request** request) {
    return table_->put(group_, peer, window, offset, source, bytes, request, &error_);
  }
  int test_request(roda_request* request) { return table_->request_test(group_, request, &error_); }
  int signal(int peer, std::uint32_t index, std::uint64_t value) {
    return table_->signal(group_, peer, index, value, &error_);
  }
  std::uint64_t signal_value(int peer, std::uint32_t index) { return table_->signal_value(group_, peer, index); }
  void* map(int peer, std::uint32_t window) {
    return table_->window_map == nullptr ? nullptr : table_->window_map(group_, peer, window);
  }
  // roda_transport::store_cost; 0 where the transport has no such thing.
  std::uint32_t store_cost(int peer) { return table_->store_cost == nullptr ? 0 : table_->store_cost(group_, peer); }
  // Native collectives are told apart by their order alone, and a transport may put one off (RODA_AGAIN): each draws a
  // number when its turn is fixed, and starts when all numbers before it have.
  std::uint64_t draw_number() { return numbers_drawn_++; }
  bool is_next(std::uint64_t number) const { return number == collectives_started_; }
  // Starts the collective whose number is next.
  int start_collective(const roda_collective_args& args, roda_request** request) {
    RODA_INVARIANT(collectives_started_ < numbers_drawn_, "a collective has a number before it starts");
    const int code = table_->collective_start(group_, &args, request, &error_);
    if (code != RODA_AGAIN) ++collectives_started_;
    return code;
  }
  // Whether all work of a collective that was given a stream lies on it; false also where the transport can't tell. An
  // error comes from test_request().
  bool is_on_stream(roda_request* request) {
    return table_->request_on_stream != nullptr && table_->request_on_stream(group_, request, &error_) == RODA_OK;
  }
  // The error of the last failing call.
  Status error(int code) const { return Status::from(code, error_); }

  // True when no access of the transport to the range can follow any more.
  bool quiesced(const void* base, std::size_t bytes);

  // --- memory of others (RODA_CAP_REGISTER), of a kind that the context takes ---
  Status register_memory(roda_memory* memory);
  void deregister_memory(roda_memory* memory) { table_->memory_deregister(group_, memory); }

  // --- memory of the transport's own (RODA_CAP_ALLOCATE) ---
  Status allocate(std::size_t bytes, roda_memory* memory);
  void free(roda_memory* memory);
  // Memory for a program's tensors, which may keep it when the group is gone. RODA_ERR_UNSUPPORTED where the
  // transport's memory goes with the group, or peers can't map it.
  Status lend(std::size_t bytes, LentMemory** memory);
  const roda_memory* find_lent(const void* base, std::size_t bytes) const {
    const auto found = std::ranges::find_if(lent_, [&](const LentMemory* m) { return m->has(base, bytes); });
    return found == lent_.end() ? nullptr : &(*found)->memory_;
  }

  // --- bookkeeping of windows and signals; for stages ---
  // A block of a slot: the unit that has signals and a pair of windows of its own.
  struct Block {
    std::uint64_t sequence = 0;              // of uses, equal on all ranks
    std::uint64_t linger_sequence = 0;       // the use whose reads may outlast it, 0: none
    std::vector<std::int32_t> late_readers;  // of that use
    roda_memory memory{};                    // staging memory, address null until asked for
    const void* window_base[2] = {};         // what is open: Input, Output
    std::size_t window_bytes[2] = {};
  };
  // The next block of the slot in rotation; the same one on every rank that runs the same stages in the slot.
  std::uint32_t next_block(std::uint32_t slot);
  Block& block(std::uint32_t index) { return blocks_[index]; }
  // Opens the block's window (0 Input, 1 Output) unless exactly that range is open already.
  Status open_window(std::uint32_t block, int which, void* base, std::size_t bytes, const roda_memory* memory);
  // Staging memory of the block, at least `bytes` long. Allocated at the first use; grows.
  Status staging(std::uint32_t block, std::size_t bytes, roda_memory** memory);
  std::uint32_t blocks_per_slot() const { return blocks_per_slot_; }
  static std::uint32_t window_index(std::uint32_t block, int which) {
    return block * 2 + static_cast<std::uint32_t>(which);
  }
  std::uint32_t signal_index(std::uint32_t block, int signal) const {
    return block * (schedule::kMaxSignals + 1) + static_cast<std::uint32_t>(signal);
  }
  // The signal that says: this rank no longer reads the peers' windows of the block.
  std::uint32_t linger_index(std::uint32_t block) const { return signal_index(block, schedule::kMaxSignals); }

 private:
  TransportGroup(TransportContext& context, GroupOptions options);
  void count_slots();
  void end(LentMemory* memory);  // the program has given it back

  TransportContext& context_;
  const roda_transport* table_;
  GroupOptions options_;
  roda_group* group_ = nullptr;
  bool ready_ = false;
  std::atomic<bool> aborted_{false};
  mutable Mutex cause_mutex_;
  Status cause_ RODA_GUARDED_BY(cause_mutex_);
  roda_error error_ = make_error();
  std::uint64_t numbers_drawn_ = 0;
  std::uint64_t collectives_started_ = 0;
  std::uint32_t slots_ = 0;
  std::uint32_t blocks_per_slot_ = 0;
  std::vector<Block> blocks_;
  std::vector<std::uint64_t> rotation_;  // [slots_] blocks handed out
  std::vector<LentMemory*> lent_;
};

}  // namespace roda::execute
