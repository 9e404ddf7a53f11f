#include "transports/verbs/group.h"

#include <algorithm>
#include <utility>

namespace roda::verbs {

Group::Group(Context& context, const roda_group_desc& desc)
    : context_(context),
      rank_(desc.rank),
      size_(desc.size),
      name_(desc.name),
      world_ranks_(desc.world_ranks, desc.world_ranks + desc.size),
      timeout_ns_(desc.timeout_ns),
      started_ns_(now_ns()),
      exchange_(desc.exchange),
      messages_(context.devices(), context.known()),
      peers_(static_cast<std::size_t>(desc.size)) {
  if (size_ == 1) phase_ = Phase::kFormed;
  context_.add(this);
}

Group::~Group() {
  context_.remove(this);
  if (!context_.in_owner()) {
    messages_.forget();
    if (wires_ != nullptr) wires_->forget();
    return;
  }
  if (is_broken()) act_on_abort();
  if (wires_ == nullptr || is_broken() || phase_ != Phase::kFormed) return;
  messages_.end_all(RODA_ERR_ABORTED, "verbs: " + label() + " was destroyed");
  wires_->set_listener(nullptr);
  wires_->say_bye();
  context_.linger(std::move(wires_));
}

bool Group::test() {
  if (!context_.in_owner()) refuse(0);
  if (is_broken()) act_on_abort();
  cause_.throw_if_set();
  if (phase_ == Phase::kFormed) {
    // Asked again and again by those that only watch signals.
    watched_until_ns_ = now_ns() + 2 * context_.probe_ns();
    return true;
  }
  check_deadline();
  return form_on();
}

int Group::progress() {
  if (phase_ != Phase::kFormed || wires_ == nullptr) return 0;
  if (is_broken()) {
    act_on_abort();
    return 0;
  }
  try {
    const int handled = wires_->progress();
    return handled + messages_.progress();
  } catch (const sdk::Failure& failure) {
    abort(failure);
  } catch (const std::exception& failure) {
    abort({RODA_ERR_UNKNOWN, "verbs: " + label() + ": " + failure.what()});
  }
  return 1;
}

void Group::arm() {
  if (phase_ == Phase::kFormed && wires_ != nullptr && !is_broken()) wires_->arm();
}

bool Group::is_watching() const {
  if (phase_ != Phase::kFormed || wires_ == nullptr || is_broken()) return false;
  if (messages_.has_pending() || wires_->awaits_reason() || now_ns() < watched_until_ns_) return true;
  return std::any_of(wires_->links().begin(), wires_->links().end(),
                     [](const auto& link) { return link != nullptr && link->has_unsent(); });
}

void Group::ask_silent_peers() {
  if (!is_watching()) return;
  const std::uint64_t now = now_ns();
  try {
    for (const auto& link : wires_->links()) {
      if (link != nullptr && now - link->heard_ns >= context_.probe_ns()) link->probe();
    }
  } catch (const sdk::Failure& failure) {
    abort(failure);
  }
}

void Group::on_device_event(const Device& device, const ibv_qp* pair, const std::string& what) {
  if (wires_ == nullptr || is_broken()) return;
  const RailPlan& plan = wires_->plan();
  const bool is_used = std::any_of(plan.device.begin(), plan.device.end(),
                                   [&](std::size_t index) { return (*plan.devices)[index].get() == &device; });
  std::string peers;
  for (const auto& link : wires_->links()) {
    if (link == nullptr || link->life == Link::Life::kLeft || (pair != nullptr && !link->owns(pair))) continue;
    peers += (peers.empty() ? "" : ", ") + std::to_string(link->world_rank);
  }
  if (!is_used || peers.empty()) return;
  abort({RODA_ERR_SYSTEM,
         "verbs: " + device.name() + ", a way from rank " +
             std::to_string(world_ranks_[static_cast<std::size_t>(rank_)]) + " to rank " + peers + ": " + what +
             "; see to the device and its link, or leave it out with RODA_VERBS_DEVICES",
         world_ranks_[static_cast<std::size_t>(rank_)]});
}

void Group::abort(const sdk::Failure& cause) {
  cause_.set(cause);
  broken_.store(true, std::memory_order_release);
  context_.wake();
}

// The engine's part of an abort: no device touches anything on behalf of the group any more, and what is pending ends.
void Group::act_on_abort() {
  if (std::exchange(acted_, true)) return;
  if (!context_.in_owner() || wires_ == nullptr) return;
  wires_->close();
  roda_error cause{};
  cause.struct_size = sizeof cause;
  cause_.fill(&cause);
  messages_.end_all(cause.code, cause.message);
}

bool Group::is_quiet(const void* base, std::size_t bytes) {
  if (is_broken()) {
    act_on_abort();
    return true;
  }
  if (messages_.touches(base, bytes)) return false;
  return std::none_of(own_windows_.begin(), own_windows_.end(), [&](const Window& window) {
    return sdk::overlaps(base, bytes, reinterpret_cast<const void*>(window.address), window.bytes);
  });
}

std::int32_t Group::test(Request* request) {
  if (is_broken()) act_on_abort();  // ends the request
  try {
    return messages_.test(request);
  } catch (const sdk::Failure& failure) {
    if (failure.code() != RODA_ERR_TIMEOUT || is_broken()) throw;
    abort(failure);
  }
  act_on_abort();
  return messages_.test(request);
}

Link& Group::admit(int peer, bool or_left) {
  if (is_broken() || phase_ != Phase::kFormed || peer < 0 || peer >= size_ || peer == rank_) refuse(peer);
  Link& link = *wires_->link(peer);
  const bool is_there = link.life == Link::Life::kOpen || (or_left && link.life == Link::Life::kLeft);
  if (!is_there) refuse(peer);
  return link;
}

void Group::refuse(int peer) {
  if (!context_.in_owner()) {
    throw sdk::Failure(RODA_ERR_PRECONDITION, "verbs: this process was forked from the one that formed " + label());
  }
  if (is_broken()) act_on_abort();
  cause_.throw_if_set();
  if (phase_ != Phase::kFormed) throw sdk::Failure(RODA_ERR_PRECONDITION, "verbs: " + label() + " is still forming");
  if (peer < 0 || peer >= size_ || peer == rank_) {
    throw sdk::Failure(RODA_ERR_INVALID, "verbs: " + label() + " has no peer " + std::to_string(peer));
  }
  const int world_rank = world_ranks_[static_cast<std::size_t>(peer)];
  const bool has_left = wires_->link(peer)->life == Link::Life::kLeft;
  throw sdk::Failure(RODA_ERR_PEER,
                     has_left ? "verbs: rank " + std::to_string(world_rank) + " has left " + label()
                              : "verbs: the connection to rank " + std::to_string(world_rank) + " broke",
                     world_rank);
}

void Group::on_left(Link& link) {
  messages_.end_those_of(link, RODA_ERR_PEER,
                         "verbs: rank " + std::to_string(link.world_rank) + " has left " + label());
}

}  // namespace roda::verbs
