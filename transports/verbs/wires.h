// The links of one group with what they share: completion queues, buffers, and the loop that takes completions.
//
// Outlives its group when that was not aborted: what was sent must arrive, also after the sender has gone.
// Threads: one at a time. Throws sdk::Failure unless a function says otherwise.
#pragma once

#include <roda/sdk/error.hpp>

#include "transports/verbs/link.h"
#include "transports/verbs/memory.h"

namespace roda::verbs {

inline constexpr std::uint32_t kBounces = 32;

class Group;

class Wires {
 public:
  struct Terms {  // agreed by all members
    std::vector<std::size_t> device_of_rail;
    std::size_t eager_bytes = 0;
    std::uint32_t credits = 0;
  };
  // A completion queue and whether it will tell of the next completion.
  struct Queue {
    ibv_cq* cq = nullptr;
    bool is_armed = false;
  };

  Wires(const Devices& devices, const Settings& settings, Terms terms, int rank);
  ~Wires();

  // Makes what the links share; call once, first.
  void create(const std::vector<std::int32_t>& world_ranks);
  // The group is told what came, from progress(), and may send then. Null: nobody is.
  void set_listener(Group* group) { listener_ = group; }
  // Opens the queue pairs of a few more links; true when all are open.
  bool open_some();
  // Null for this rank itself.
  Link* link(int rank) { return links_[static_cast<std::size_t>(rank)].get(); }
  const std::vector<std::unique_ptr<Link>>& links() const { return links_; }
  const RailPlan& plan() const { return plan_; }
  std::size_t eager_bytes() const { return eager_bytes_; }
  // Registered places of eager_bytes() each, numbers below kBounces, for short data in memory that isn't registered;
  // and one more for answers that nobody reads.
  std::byte* bounce(std::uint32_t number) const { return buffer_ + eager_bytes_ * number; }
  std::uint32_t bounce_key(int rail) const;

  // Completions taken and records sent.
  int progress();
  // Makes the channels tell of the next completion. Completions that came before must be taken afterwards.
  void arm();
  // A connection broke, and what the device says about it is awaited.
  bool awaits_reason() const { return flushed_link_ != nullptr; }
  // Ends all access of devices: destroys the queue pairs.
  void close();
  void forget();

  // --- after the group is gone ---
  void say_bye();
  // Everything that was sent has arrived, or its receiver is gone.
  bool is_drained() const;

 private:
  std::size_t bounces_bytes() const { return eager_bytes_ * (kBounces + 1); }
  void create_queue(int rail, std::uint32_t completions);
  int take(Queue& queue, int rail);
  void take_one(const ibv_wc& completion, int rail);
  void take_receive(Link& link, const ibv_wc& completion, int rail);
  void lose(Link& link, int rail, const ibv_wc& completion);
  void report(const Link& link, int rail, ibv_wc_status status);

  const Settings& settings_;
  const int rank_;
  const std::size_t eager_bytes_;
  RailPlan plan_;
  std::vector<std::unique_ptr<Queue>> queues_;  // of each rail; stable addresses, events carry them
  std::byte* buffer_ = nullptr;
  std::size_t buffer_bytes_ = 0;
  Registration memory_;
  std::vector<std::unique_ptr<Link>> links_;  // [size], null for this rank
  std::size_t opened_ = 0;
  Group* listener_ = nullptr;
  bool someone_left_ = false;  // and the listener does not know yet
  // A connection that is broken without a reason so far.
  const Link* flushed_link_ = nullptr;
  int flushed_rail_ = 0;
  std::uint64_t flushed_ns_ = 0;
};

std::uint64_t now_ns();  // coarse

}  // namespace roda::verbs
