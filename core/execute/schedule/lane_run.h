// One lane of one run on its way through its ops, and what the lanes of a run share: the program, the group, and where
// its memory lies.
#pragma once

#include <roda/abi/transport.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/schedule/places.h"
#include "core/execute/group.h"
#include "core/execute/layout.h"
#include "core/execute/memory.h"
#include "core/execute/stage.h"
#include "plugins/base/status.h"

namespace roda::execute {

using schedule::kNobody;
using schedule::LaneProgram;
using schedule::Op;
using schedule::Operand;
using schedule::OpKind;
using schedule::Program;
using schedule::Source;

struct RunView : schedule::Places {
  TransportGroup* group = nullptr;
  const ExecuteOptions* options = nullptr;
  std::int32_t dtype = RODA_FLOAT32;
  std::int32_t op = RODA_SUM;
  std::size_t element = 4;
  Tag tag;

  const roda_memory* user_memory[2] = {};
  // Copies go past the cache: peers on far cores have read what they write over, and would have to give it up first.
  bool streams = false;
  double sum_factor = 1.0;  // of what a kCombine sums up
  const roda_memory* block_memory = nullptr;
  // The data lie on a device: copies and reductions are put on this queue's stream. Null: host memory.
  const DeviceQueue* queue = nullptr;
  WorkMemory scratch;
  // Adasum's: where tensors begin in the vector, and the memory of their products, with whole lines for a chunk.
  const std::size_t* tensor_begins = nullptr;
  std::size_t tensors = 0;
  WorkMemory product_memory;
  WireData wire;  // at least one tensor
  WireTensor whole;

  // Peers on far cores, as Run found at the beginning of the slice.
  std::vector<bool> far;
  bool any_far = false;

  std::uint32_t block_index = 0;
  std::uint64_t sequence = 0;  // of this use of the block

  // Whether what lies in these chunks of the block is for a peer on a far core. Its bytes are stored past the cache
  // then: a plain store first gets each line back from the reader's cache (docs/notes/shared-memory.md).
  bool goes_far(schedule::Space space, std::int32_t first, std::int32_t count) const {
    if (!any_far || (space != schedule::Space::kInput && space != schedule::Space::kOutput)) return false;
    const auto begin = program->readers[which(space)].begin() + first;
    return std::any_of(begin, begin + count, [&](std::int32_t peer) {
      return peer == schedule::kAllPeers || (peer != kNobody && far[index(peer)]);
    });
  }

  const roda_memory* memory(const Operand& operand) const {
    if (operand.space == schedule::Space::kScratch) return scratch.memory();
    if (operand.space == schedule::Space::kProducts) return nullptr;
    return in_user(operand) ? user_memory[which(operand.space)] : block_memory;
  }

  std::uint32_t window(const Operand& operand) const {
    return TransportGroup::window_index(block_index, static_cast<int>(which(operand.space)));
  }
};

// The work that one test() may still do, in bytes, and a count of things that moved.
struct Effort {
  std::size_t budget = 0;
  std::uint64_t moves = 0;

  void spend(std::size_t bytes) {
    budget -= bytes < budget ? bytes : budget;
    ++moves;
  }
};

class LaneRun {
 public:
  // `view` and `lane` outlive it.
  LaneRun(const RunView& view, const LaneProgram& lane, std::uint32_t index);

  void restart();
  // Until the lane ends, must wait, or the budget is spent. An error leaves requests pending; see release().
  Status advance(Effort* effort);
  bool done() const { return next_ == lane_.ops.size() && sends_.empty(); }
  // After a failure: true when no request is pending any more.
  bool release();
  // "recv from rank 3, step 4 of 12".
  std::string describe() const;

 private:
  struct Pending {
    roda_request* request = nullptr;
    std::size_t offset = 0;
    std::size_t bytes = 0;
  };
  struct Send {
    roda_request* request = nullptr;
    const char* begin = nullptr;
    const char* end = nullptr;
  };
  // Requests of the op under way complete in the order they were started.
  static constexpr std::uint32_t kMostPending = 4;

  struct OpState {
    bool entered = false;
    bool mapped = false;
    bool empty_sent = false;
    std::size_t posted = 0;
    std::size_t done = 0;
    std::uint32_t source = 0;  // or tensor
    std::size_t message = 0;   // where it begins in encoded_
    int peer = 0;              // of the op's, how many are through
  };

  // Each goes as far as it can: *done stays false where the op has to wait, or the budget is spent.
  Status step(const Op& op, Effort* effort, bool* done);
  Status send(const Op& op, Effort* effort, bool* done);
  Status recv(const Op& op, Effort* effort, bool* done);  // kRecvReduce too
  Status send_encoded(const Op& op, Effort* effort, bool* done);
  Status round(const Op& op, Effort* effort, bool* done);
  Status combine_mapped(const Op& op, Effort* effort, bool* done);
  Status combine_by_gets(const Op& op, Effort* effort, bool* done);
  Status get_source(const Op& op, const Source& source, Effort* effort, bool* done);
  Status combine_on_device(const Op& op, bool* done);
  Status put(const Op& op, Effort* effort, bool* done);
  Status combine_vectors(const Op& op, Effort* effort, bool* done);  // kDots, kWeigh
  Status signal_or_wait(const Op& op, Effort* effort, bool* done);

  Status enter(const Op& op);
  int next_peer(const Op& op) const;
  // All messages of the op, which are this long together, are on their way.
  bool all_posted(const Operand& operand, std::size_t total) const {
    return state_.posted == total && (operand.count > 0 || state_.empty_sent);
  }
  Tag tag() const;
  Status reap_sends(const char* begin, const char* end, bool* clear);
  Status reap(Effort* effort, std::optional<Pending>* finished);
  Status post_recv(const Op& op, std::uint32_t most, bool bounced);
  Status add_message(const Op& op, const Pending& message);
  // Bytes of data in the longest message of the op, and of a message of so many.
  std::size_t segment(const Op& op) const;
  static std::size_t wire_bytes(const Op& op, std::size_t bytes) {
    return op.format == RODA_WIRE_NONE ? bytes : roda_wire_bytes(op.format, bytes / sizeof(float));
  }
  // Room in encoded_ for what the op encodes, all of it one message that may be sent in parts.
  Status begin_message(const Op& op, const Operand& operand);
  bool is_encoded(const Operand& sent) const;
  // The next part of it: as long as the longest message.
  char* encode(const Op& op, const Operand& operand);
  void push(roda_request* request, std::size_t bytes);
  const char* local(std::uint32_t index) const { return static_cast<const char*>(mapped_[index]); }
  Status no_reduction(int code) const;
  Status reduce(char* dst, const char* a, const char* b, std::size_t bytes);
  Status reduce_on_device(char* dst, const char* a, const char* b, std::size_t bytes);
  // Whether the last work that was put on the device's stream is over.
  Status is_device_idle(bool* idle);
  // Whether the message of that number of a step may come.
  Status is_part_free(std::size_t message, bool* is_free);
  // `far`: past the cache.
  void copy(char* dst, const char* src, std::size_t bytes, bool far = false) const;
  Status scale(char* sum, std::size_t bytes) const {
    return DeviceQueue().scale(sum, bytes / view_.element, view_.dtype, view_.sum_factor);
  }
  void map_sources(const Op& op);
  // Parts, so that one is worked on while the next message arrives in another; on a device more, as the host sees late
  // that one is free. `offset`: of the message in the op's data.
  std::uint32_t bounce_parts() const { return view_.queue != nullptr ? kMostPending : 2; }
  Status reserve_bounce(std::size_t part_bytes);
  char* bounce(std::size_t offset, std::size_t part_bytes) const {
    return bounce_.data() + offset / part_bytes % bounce_parts() * align_up(part_bytes);
  }
  const Source& source(const Op& op, std::uint32_t index) const { return view_.program->sources[op.source + index]; }

  const RunView& view_;
  const LaneProgram& lane_;
  std::uint32_t index_;
  std::size_t next_ = 0;
  OpState state_;
  Pending pending_[kMostPending];
  std::uint32_t head_ = 0;
  std::uint32_t count_ = 0;
  std::vector<Send> sends_;
  std::vector<const void*> mapped_;  // sources of the combine under way, null: must be fetched
  WorkMemory bounce_;
  WorkMemory encoded_;  // messages of the slice, until it is over
  std::size_t encoded_end_ = 0;
  std::size_t rounded_message_ = 0;                       // of the last kRound
  std::shared_ptr<DeviceEvent> device_work_;              // behind the copies and reductions under way there
  std::shared_ptr<DeviceEvent> part_work_[kMostPending];  // [part of bounce_] behind the reduction that reads it
};

}  // namespace roda::execute
