// What every group of a transport has, whatever moves its bytes: who its members are, whether it is forming, works or
// has failed, and how that is said.
#pragma once

#include <roda/abi/transport.h>
#include <roda/sdk/clock.hpp>
#include <roda/sdk/error.hpp>
#include <roda/sdk/exchange.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace roda::sdk {

// What a context knows of its groups. One thread at a time.
template <typename Group>
class GroupList {
 public:
  void add(Group* group) { groups_.push_back(group); }
  void remove(Group* group) { std::erase(groups_, group); }
  // Progresses all groups; returns how many events they handled. Groups may come and go meanwhile.
  int progress() {
    int handled = 0;
    for (std::size_t i = 0; i < groups_.size(); ++i) handled += groups_[i]->progress();
    return handled;
  }

 protected:
  std::vector<Group*> groups_;
};

// is_broken(), abort() and what never changes: any thread. The rest: one at a time.
//
// A group forms, then works, and may fail at any time: abort() notes the first cause, and the transport acts on it at
// its next call, once, when take_abort() says so.
class GroupState {
 public:
  // `transport` is its name, which texts begin with; a string literal.
  GroupState(const char* transport, const roda_group_desc& desc)
      : transport_(transport),
        rank_(desc.rank),
        size_(desc.size),
        name_(desc.name != nullptr ? desc.name : "?"),
        address_(has_address(desc) ? desc.address : ""),
        exchange_(desc.exchange),
        timeout_ns_(desc.timeout_ns),
        created_ns_(now_ns()) {
    if (size_ < 1 || rank_ < 0 || rank_ >= size_) {
      throw Failure(RODA_ERR_INVALID, text("member " + std::to_string(rank_) + " of " + std::to_string(size_)));
    }
    for (int rank = 0; rank < size_; ++rank) {
      world_ranks_.push_back(desc.world_ranks != nullptr ? desc.world_ranks[rank] : rank);
    }
  }
  GroupState(const GroupState&) = delete;
  GroupState& operator=(const GroupState&) = delete;

  // --- the members ---
  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& name() const { return name_; }
  // roda_group_desc::address; empty: not known.
  const std::string& address() const { return address_; }
  const std::vector<std::int32_t>& world_ranks() const { return world_ranks_; }
  std::int32_t world_rank(int rank) const { return world_ranks_[static_cast<std::size_t>(rank)]; }
  bool is_peer(int rank) const { return rank >= 0 && rank < size_ && rank != rank_; }
  // What the members tell each other: begun, and to be tested. `key` is this group's own, and equal on all members.
  Allgather gather(const char* key, const void* value, std::size_t bytes) const {
    Allgather started(exchange_, rank_, size_, key);
    started.start(value, bytes);
    return started;
  }
  // One value for who asks for it, as long as the group lives. get(): false where it is not there yet. Throw Failure.
  void put(const char* key, const void* value, std::size_t bytes) const { put_value(exchange_, key, value, bytes); }
  bool get(int rank, const char* key, void* value, std::size_t bytes) const {
    return get_value(exchange_, rank, key, value, bytes);
  }
  // For an operation without progress; 0: none.
  std::uint64_t timeout_ns() const { return timeout_ns_; }

  // --- its life ---
  bool is_formed() const { return is_formed_; }
  void set_formed() { is_formed_ = true; }
  bool is_broken() const { return cause_.is_set(); }
  // Operations may be started.
  bool works() const { return is_formed_ && !is_broken(); }
  // True if this call set the cause.
  bool abort(const Failure& cause) { return cause_.set(cause); }
  // True once, when the group is broken and nobody has acted on it.
  bool take_abort() { return is_broken() && !std::exchange(has_acted_, true); }
  bool has_acted() const { return has_acted_; }
  void throw_if_broken() const { cause_.throw_if_set(); }
  // Only of a broken group.
  Failure cause() const { return cause_.failure(); }

  // One step of group_test: `step` takes the forming further, and returns true when the group has formed; `late` says
  // what is missing once the time is over; `fail` ends the group, its own abort() included. True once it has formed.
  template <typename Step, typename Late, typename Fail>
  bool form(Step&& step, Late&& late, Fail&& fail) {
    throw_if_broken();
    if (is_formed_) return true;
    try {
      is_formed_ = step();
      if (!is_formed_ && is_late()) throw late();
    } catch (const Failure& failure) {
      fail(failure);
      throw_if_broken();
    }
    return is_formed_;
  }

  // Why an operation with that member can't be started. To be called when it can't.
  [[noreturn]] void refuse(int peer) const {
    throw_if_broken();
    if (!is_formed_) throw Failure(RODA_ERR_PRECONDITION, text("is still forming"));
    throw Failure(RODA_ERR_INVALID, text("has no peer " + std::to_string(peer)));
  }

  // True when the limit on forming is over. It counts from the beginning.
  bool is_late() const { return timeout_ns_ != 0 && now_ns() - created_ns_ >= timeout_ns_; }
  // The end of a forming that took too long. `missing`: group ranks that did not come; `stage`: what else is known.
  Failure late(const std::vector<int>& missing, const std::string& stage = {}) const {
    std::string names;
    for (const int rank : missing) names += " " + std::to_string(world_rank(rank));
    return {RODA_ERR_TIMEOUT,
            text("did not form in " + milliseconds() + "; " +
                 (names.empty() ? std::string() : "missing: rank" + names + "; ") +
                 (stage.empty() ? std::string() : stage + "; ") + kRaise),
            missing.empty() ? -1 : world_rank(missing.front())};
  }

  // --- words ---
  // "group world"
  std::string label() const { return "group " + name_; }
  // "tcp: group world" and what follows.
  std::string text(const std::string& rest) const { return std::string(transport_) + ": " + label() + " " + rest; }
  // "rank 3 (group world)", with the world rank; `place` says where it is.
  std::string describe(int rank, const std::string& place = {}) const {
    return "rank " + std::to_string(world_rank(rank)) + " (" + label() + (place.empty() ? "" : ", ") + place + ")";
  }
  // What is wrong with a member: "tcp: rank 3 (group world) has left the group".
  Failure fault(int32_t code, int rank, const std::string& what, const std::string& place = {}) const {
    return {code, std::string(transport_) + ": " + describe(rank, place) + " " + what, world_rank(rank)};
  }
  Failure has_left(int rank, const std::string& place = {}) const {
    return fault(RODA_ERR_PEER, rank, "has left the group", place);
  }
  Failure other_version(int rank) const {
    return fault(RODA_ERR_PRECONDITION, rank, "runs another version of this plugin");
  }
  // "tcp: no window 7", unless there is one.
  void check_index(std::uint32_t index, std::uint32_t count, const char* what) const {
    if (index < count) return;
    throw Failure(RODA_ERR_INVALID, std::string(transport_) + ": no " + what + " " + std::to_string(index));
  }
  // The end of an operation that stood still: "tcp: a message to rank 3 (group world) did not move for 30000 ms".
  Failure stood_still(const std::string& what, int rank, const std::string& place = {}) const {
    return {RODA_ERR_TIMEOUT,
            std::string(transport_) + ": " + what + " " + describe(rank, place) + " did not move for " +
                milliseconds() + ": the rank may be stopped or unreachable; " + kRaise,
            world_rank(rank)};
  }
  // The end of a receive whose message has another length.
  Failure other_length(std::size_t sent, std::size_t expected, int rank, const std::string& place = {}) const {
    return {RODA_ERR_INVALID,
            std::string(transport_) + ": a message of " + std::to_string(sent) + " bytes came from " +
                describe(rank, place) + " where " + std::to_string(expected) +
                " were expected: the ranks disagree on what they do",
            world_rank(rank)};
  }
  static constexpr const char* kRaise = "if the ranks are merely slow, raise HOROVOD_GLOO_TIMEOUT_SECONDS";

 private:
  // A host of before it was added leaves it out.
  static bool has_address(const roda_group_desc& desc) {
    return desc.struct_size >= offsetof(roda_group_desc, address) + sizeof desc.address && desc.address != nullptr;
  }
  std::string milliseconds() const { return std::to_string(timeout_ns_ / 1'000'000) + " ms"; }

  const char* const transport_;
  const int rank_;
  const int size_;
  const std::string name_;
  const std::string address_;
  const roda_exchange exchange_;
  const std::uint64_t timeout_ns_;
  const std::uint64_t created_ns_;
  std::vector<std::int32_t> world_ranks_;
  FirstCause cause_;
  bool has_acted_ = false;
  bool is_formed_ = false;
};

}  // namespace roda::sdk
