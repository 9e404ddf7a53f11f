// The links of one group with what they share: completion queues, buffers, and the loop that takes completions.
//
// Outlives its group when that was not aborted: what was sent must arrive, also after the sender has gone.
// Threads: one at a time. Throws sdk::Failure unless a function says otherwise.
#pragma once

#include <roda/sdk/group_state.hpp>

#include "plugins/base/coarse_clock.h"
#include "transports/verbs/link.h"
#include "transports/verbs/memory.h"

namespace roda::verbs {

inline constexpr std::uint32_t kBounces = 32;
inline constexpr int kLinksPerStep = 8;  // opened, or connected, by one call

class Group;

inline std::uint64_t now_ns() { return static_cast<std::uint64_t>(CoarseClock::now().time_since_epoch().count()); }

class Wires {
 public:
  // A completion queue and whether it will tell of the next completion.
  struct Queue {
    explicit Queue(const Device& of) : device(of) {}
    ~Queue() {
      if (cq != nullptr) device.library().destroy_cq(cq);
    }
    const Device& device;
    ibv_cq* cq = nullptr;
    bool is_armed = false;
  };

  // `terms` is what all members agreed on, `device_of_rail` this rank's part in it.
  Wires(const Devices& devices, const Settings& settings, const Hello& terms, std::vector<std::size_t> device_of_rail,
        const sdk::GroupState& group);

  // The group is told what came, from progress(), and may send then. Null: nobody is.
  void set_listener(Group* group) { listener_ = group; }
  // Opens the queue pairs of a few more links; true when all are open.
  bool open_some() {
    for (int i = 0; i < kLinksPerStep && opened_ < links_.size(); ++i, ++opened_) {
      links_[opened_].open(buffer_.get() + bounces_bytes() + plan_.buffer_bytes() * opened_, &memory_);
    }
    return opened_ == links_.size();
  }
  // To each other rank, in their order.
  Link& link(int rank) { return links_[static_cast<std::size_t>(rank < rank_ ? rank : rank - 1)]; }
  std::deque<Link>& links() { return links_; }
  const RailPlan& plan() const { return plan_; }
  std::size_t eager_bytes() const { return eager_bytes_; }
  // Registered places of eager_bytes() each, numbers below kBounces, for short data in memory that isn't registered;
  // and one more for answers that nobody reads.
  std::byte* bounce(std::uint32_t number) const { return buffer_.get() + eager_bytes_ * number; }
  std::uint32_t bounce_key(std::size_t rail) const { return memory_.local_key(plan_.device[rail]); }

  // Completions taken and records sent.
  int progress();
  // Makes the channels tell of the next completion. Completions that came before must be taken afterwards.
  void arm() {
    for (Queue& queue : queues_) queue.is_armed = queue.is_armed || ibv_req_notify_cq(queue.cq, 0) == 0;
  }
  // A connection broke, and what the device says about it is awaited.
  bool awaits_reason() const { return flushed_link_ != nullptr; }
  // Ends all access of devices: destroys the queue pairs.
  void close() {
    for (Link& link : links_) link.close();
  }

  // --- after the group is gone ---
  void say_bye() {
    for (Link& link : links_) {
      if (link.life == Link::Life::kOpen) link.tell({.kind = Kind::kBye});
    }
  }
  // Everything that was sent has arrived, or its receiver is gone.
  bool is_drained() const {
    return std::ranges::none_of(links_, [](const Link& link) {
      return link.life == Link::Life::kOpen && (link.has_unsent() || link.has_unacknowledged());
    });
  }

 private:
  std::size_t bounces_bytes() const { return eager_bytes_ * (kBounces + 1); }
  void create_queue(std::size_t rail, std::size_t completions);
  int take(std::size_t rail);
  void take_one(const ibv_wc& completion, std::size_t rail);
  void take_receive(Link& link, const ibv_wc& completion, std::size_t rail);
  // The first bad completion of a link tells what happened to it; those after it are only its consequence. One that
  // says no more than that the connection was broken waits a moment for the device to say why.
  void lose(Link& link, std::size_t rail, const ibv_wc& completion) {
    if (link.life != Link::Life::kOpen) return;
    link.life = Link::Life::kBroken;
    if (completion.status != IBV_WC_WR_FLUSH_ERR) return report(link, rail, completion.status);
    if (flushed_link_ != nullptr) return;
    flushed_link_ = &link;
    flushed_rail_ = rail;
    flushed_ns_ = now_ns();
  }
  void report(const Link& link, std::size_t rail, ibv_wc_status status);

  const int rank_;
  const std::size_t eager_bytes_;
  RailPlan plan_;
  std::deque<Queue> queues_;  // of each rail; stable addresses, events carry them; outlive the links
  Pages buffer_;
  Registration memory_;
  std::deque<Link> links_;
  std::size_t opened_ = 0;
  Group* listener_ = nullptr;
  bool someone_left_ = false;  // and the listener does not know yet
  // A connection that is broken without a reason so far.
  const Link* flushed_link_ = nullptr;
  std::size_t flushed_rail_ = 0;
  std::uint64_t flushed_ns_ = 0;
};

}  // namespace roda::verbs
