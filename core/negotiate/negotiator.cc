#include "core/negotiate/negotiator.h"

#include <algorithm>
#include <numeric>

#include "core/negotiate/request.h"
#include "plugins/base/invariant.h"

namespace roda::negotiate {

Negotiator::Negotiator(const Settings& settings, int rank) : settings_(settings), rank_(rank) {
  std::vector<std::int32_t> world(static_cast<std::size_t>(settings.size));
  std::iota(world.begin(), world.end(), 0);
  make_set(0, std::move(world));
}

void Negotiator::make_set(std::int32_t id, std::vector<std::int32_t> ranks) {
  const bool is_new =
      sets_.emplace(id, Set(id, sets_made_++, std::move(ranks), rank_, settings_.cache_capacity)).second;
  RODA_INVARIANT(is_new, "an id is of one process set at a time");
}

// What was launched for it goes on, and what its members need for that stays until all have said that it has ended.
void Negotiator::remove_set(std::int32_t id, Outcome* outcome) {
  const Set& set = sets_.at(id);
  RODA_INVARIANT(id > 0, "the job's own process set stays");
  const bool is_new = leaving_.emplace(set.number, Leaving{set.members, {}}).second;
  RODA_INVARIANT(is_new, "a process set is removed once");
  outcome->set_removed(id);
  sets_.erase(id);
  free_ids_.push_back(id);
}

void Negotiator::end_set(std::uint64_t number, std::int32_t rank, Outcome* outcome) {
  const auto found = leaving_.find(number);
  const int member = found == leaving_.end() ? -1 : found->second.members.position(rank);
  if (member < 0) return;
  Leaving& leaving = found->second;
  RODA_INVARIANT(!std::ranges::any_of(sets_, [&](const auto& s) { return s.second.number == number; }),
                 "a process set has gone before it ends");
  leaving.ended.add(member, member);
  if (leaving.ended.count() < leaving.members.size()) return;
  leaving_.erase(found);
  outcome->set_ended(number);
}

std::int32_t Negotiator::add_static_set(const std::vector<std::int32_t>& ranks) {
  const std::int32_t id = next_id_++;
  make_set(id, ranks);
  return id;
}

Negotiator::Set* Negotiator::find(std::int32_t id) {
  const auto it = sets_.find(id);
  return it == sets_.end() ? nullptr : &it->second;
}

bool Negotiator::wants_finished(std::int32_t id) const {
  const Set& set = sets_.at(id);
  return !set.ready.empty() && static_cast<int>(set.outstanding.size()) >= settings_.outstanding;
}

bool Negotiator::is_speaker(std::int32_t id) const {
  const Set& set = sets_.at(id);
  int first = 0;
  while (set.joined.contains(first)) ++first;
  return first == set.self;
}

int Negotiator::cached_bit(const Request& request, std::size_t name_hash) {
  Set& set = sets_.at(request.set);
  return set.cache.find(request, set.members.position(request.rank), name_hash);
}

Status Negotiator::apply(std::span<const std::byte> record, Outcome* outcome) {
  wire::RecordReader reader(record);
  const wire::RecordHeader& header = reader.header();
  if (reader.status().ok() && (header.rank < 0 || header.rank >= settings_.size)) {
    return Status::unknown("malformed control record: it claims to be from rank " + std::to_string(header.rank));
  }
  ++applied_;
  wire::ItemView item;
  while (reader.next(&item)) RODA_RETURN_IF_ERROR(apply_item(item, header.rank, header.applied, outcome));
  RODA_RETURN_IF_ERROR(reader.status());
  if (!shut_down_) launch_ready(outcome);
  return {};
}

Status Negotiator::apply_item(const wire::ItemView& item, std::int32_t rank, std::uint64_t looked_up_at,
                              Outcome* outcome) {
  using wire::Item;
  speaks_ = rank;
  if (item.kind == Item::kDrained) {
    drained_.insert(rank);
    RODA_INVARIANT(static_cast<int>(drained_.size()) <= settings_.size, "no more ranks are done than the job has");
    if (static_cast<int>(drained_.size()) == settings_.size) outcome->all_drained();
    return {};
  }
  if (item.kind == Item::kRollCall) return outcome->roll_called(), Status();
  if (item.kind == Item::kPresent) return outcome->present(rank), Status();
  if (shut_down_) return {};  // whatever a rank said before it saw the shutdown
  switch (item.kind) {
    case Item::kBits:
      return apply_bits(item, rank, looked_up_at, outcome);
    case Item::kRequest: {
      Request request;
      RODA_RETURN_IF_ERROR(wire::read_request(item, rank, &request));
      return arrive(std::move(request), outcome);
    }
    case Item::kFinished:
    case Item::kClose:
    case Item::kFlush:
    case Item::kSetEnded: {
      std::uint64_t count = 0;
      RODA_RETURN_IF_ERROR(wire::read_number(item, &count));
      if (item.kind == Item::kSetEnded) return end_set(count, rank, outcome), Status();
      Set* const set = find(item.set);
      if (set == nullptr) return {};
      if (item.kind == Item::kFlush) {
        set->flushed = std::max(set->flushed, count);
      } else if (item.kind == Item::kClose) {
        set->filling.close(count);
      } else if (set->members.position(rank) >= 0) {
        auto& outstanding = set->outstanding;
        while (!outstanding.empty() && outstanding.front() <= count) outstanding.pop_front();
      }
      return {};
    }
    case Item::kAddSet:
      return apply_add_set(item, rank, outcome);
    case Item::kRemoveSet:
      if (item.set == 0 || !has_set(item.set) || !consent(&remove_votes_, {item.set}, rank)) return {};
      remove_set(item.set, outcome);
      return {};
    case Item::kShutdown:
      shut_down_ = true;
      for (auto& [id, set] : sets_) {
        set.ready.clear();
        set.filling.clear();
        set.pending.clear();
        set.groups = Groups();
      }
      outcome->shutdown(rank, wire::read_text(item));
      return {};
    case Item::kPart: {
      std::vector<std::byte> bytes;
      wire::ItemView whole;
      bool is_whole = false;
      RODA_RETURN_IF_ERROR(parts_.take(item, rank, &bytes, &whole, &is_whole));
      return is_whole ? apply_item(whole, rank, looked_up_at, outcome) : Status();
    }
    case Item::kTuning: {
      Tuning tuning;
      RODA_RETURN_IF_ERROR(wire::read_tuning(item, &tuning));
      outcome->tuned(tuning);
      return {};
    }
    case Item::kLate: {
      Lateness lateness;
      RODA_RETURN_IF_ERROR(wire::read_lateness(item, settings_.size, &lateness));
      outcome->late(lateness);
      return {};
    }
    case Item::kDrained:
    case Item::kRollCall:
    case Item::kPresent:
      break;
  }
  return Status::unknown("malformed control record: unknown item from rank " + std::to_string(rank));
}

Status Negotiator::apply_add_set(const wire::ItemView& item, std::int32_t rank, Outcome* outcome) {
  std::vector<std::int32_t> ranks;
  RODA_RETURN_IF_ERROR(wire::read_ranks(item, &ranks));
  if (!Members::may_be(ranks, settings_.size)) {
    return Status::unknown("malformed control record: a process set that can't be from rank " + std::to_string(rank));
  }
  if (!consent(&add_votes_, ranks, rank)) return {};
  RODA_INVARIANT(free_ids_.empty() || free_ids_.front() < next_id_, "an id that is free was given before");
  const std::int32_t id = free_ids_.empty() ? next_id_++ : free_ids_.front();
  if (!free_ids_.empty()) free_ids_.pop_front();
  make_set(id, ranks);
  outcome->set_added(id, ranks);
  return {};
}

Status Negotiator::apply_bits(const wire::ItemView& item, std::int32_t rank, std::uint64_t looked_up_at,
                              Outcome* outcome) {
  wire::Bits bits;
  RODA_RETURN_IF_ERROR(wire::read_bits(item, &bits));
  Set* const set = find(item.set);
  if (set == nullptr) return {};  // it was removed meanwhile: its tensors ended with that
  const wire::RankRange speaker{rank, rank};
  const std::span<const wire::RankRange> ranks = bits.ranks.empty() ? std::span(&speaker, 1) : bits.ranks;
  if (!set->members.positions(ranks, &arriving_)) {
    return Status::unknown("malformed control record: bits from a rank outside the process set");
  }
  const bool own = arriving_.contains(set->self);
  if (bits.last >= 0) speaks_ = bits.last;
  if (bits.last >= 0 && set->members.position(bits.last) < 0) {
    return Status::unknown("malformed control record: bits that came last from a rank outside the process set");
  }
  bits.each([&](int bit) { arrive_by_bit(set, bit, ranks, own, looked_up_at, outcome); });
  return {};
}

void Negotiator::arrive_by_bit(Set* set, int bit, std::span<const wire::RankRange> ranks, bool own,
                               std::uint64_t looked_up_at, Outcome* outcome) {
  if (!set->cache.holds(bit) || set->cache.slot(bit).since > looked_up_at) {
    if (own) outcome->announce_again(set->id, bit);
    return;
  }
  Cache::Slot& slot = set->cache.slot(bit);
  const std::int32_t before = slot.arrived.count();
  slot.arrived.add(arriving_.ranges());
  RODA_INVARIANT(slot.arrived.count() <= set->size(), "no more ranks announce a tensor than its set has");
  if (slot.arrived.count() == before) return;
  outcome->announced(slot.agreed->name, slot.agreed->collective, ranks);
  const bool is_alone = set->pending.empty() && !set->cache.has_namesakes(bit);
  if (!is_alone && is_disputed(set, bit, outcome)) return to_pending(set, bit, outcome);
  if (set->is_complete(set->cache.slot(bit).arrived)) complete_cached(set, bit, outcome);
}

// Others have announced the name with other parameters, or in full: the full check knows what to say.
bool Negotiator::is_disputed(Set* set, int bit, Outcome* outcome) {
  const AgreedPtr agreed = set->cache.slot(bit).agreed;
  const int other = set->cache.find_arrived(agreed->name, bit);
  if (other >= 0) to_pending(set, other, outcome);
  return set->pending.count(agreed->name) != 0;
}

void Negotiator::complete_cached(Set* set, int bit, Outcome* outcome) {
  Cache::Slot& slot = set->cache.slot(bit);
  RODA_INVARIANT(slot.agreed != nullptr && slot.agreed->cache_bit == bit, "a bit stands for the tensor that has it");
  const bool takes_zeros = roda_collective_is(slot.agreed->collective, RODA_JOINS) != 0;
  if (slot.arrived.count() != set->size() && !takes_zeros) {
    to_pending(set, bit, outcome);  // joined members take part: the full check knows what to say
    return;
  }
  slot.arrived.clear();
  outcome->round_over(set->id, bit);
  set->cache.touch(bit);
  outcome->complete(*slot.agreed, speaks_);
  make_ready(set, slot.agreed, outcome);
}

// Agreed on: ready, once the rest of its group is.
void Negotiator::make_ready(Set* set, AgreedPtr agreed, Outcome* outcome) {
  if (agreed->group.size > 1) {
    close_group(set, set->groups.agree(std::move(agreed)), outcome);
    return;
  }
  add_ready(set, std::move(agreed));
}

void Negotiator::add_ready(Set* set, AgreedPtr agreed) const {
  RODA_INVARIANT(agreed->set == set->id && agreed->rows.size() == static_cast<std::size_t>(set->size()),
                 "a tensor is ready in the process set that has agreed on it");
  if (agreed->on_device()) return set->filling.add(std::move(agreed), settings_.buckets);
  set->ready.push_back(std::move(agreed));
  ++set->ready_count;
}

// Nothing while members are missing.
void Negotiator::close_group(Set* set, std::optional<Groups::Closed> group, Outcome* outcome) {
  if (!group) return;
  for (AgreedPtr& tensor : group->agreed) {
    if (group->error.ok()) {
      add_ready(set, std::move(tensor));
    } else {
      outcome->refuse(set->id, tensor->name, group->error);
    }
  }
}

// The entry no longer fits everybody: those who announced it by its bit have announced these very parameters.
void Negotiator::to_pending(Set* set, int bit, Outcome* outcome) {
  const AgreedPtr agreed = set->cache.slot(bit).agreed;
  const wire::RankRanges arrived = set->cache.slot(bit).arrived;
  set->cache.erase(bit);
  outcome->round_over(set->id, bit);
  outcome->disputed(set->id, bit);
  if (arrived.contains(set->self)) outcome->bit_freed(set->id, bit);
  arrived.each([&](int m) {
    const auto member = static_cast<std::size_t>(m);
    Request r;
    static_cast<Terms&>(r) = *agreed;
    r.rank = set->members.rank(m);
    r.device = agreed->on_device() ? agreed->devices[member] : -1;
    if (!r.shape.empty()) r.shape[0] = agreed->rows[member];
    add_pending(set, m, std::move(r));
  });
  // Once all are in: a joined rank may be among those who have announced.
  if (set->pending.count(agreed->name) != 0) complete_pending(set, agreed->name, outcome);
}

void Negotiator::add_pending(Set* set, int member, Request request) {
  Pending& pending = set->pending[request.name];
  pending.requests.resize(static_cast<std::size_t>(set->size()));
  auto& place = pending.requests[static_cast<std::size_t>(member)];
  if (place == nullptr) ++pending.count;
  RODA_INVARIANT(pending.count <= set->size(), "each member of a set asks once for a tensor");
  place = std::make_unique<Request>(std::move(request));
}

Status Negotiator::arrive(Request request, Outcome* outcome) {
  Set* const set = find(request.set);
  const int member = set == nullptr ? -1 : set->members.position(request.rank);
  if (member < 0) return {};
  if (roda_collective_is(request.collective, RODA_ROOTED) != 0 && set->members.position(request.root) < 0) {
    return Status::unknown("malformed control record: a " + std::string(roda_collective_of(request.collective)->users) +
                           " of '" + request.name + "' with a root outside the process set, by rank " +
                           std::to_string(request.rank));
  }
  if (request.collective == RODA_JOIN) {
    join(set, member, outcome);
    return {};
  }
  const std::string name = request.name;
  const wire::RankRange speaker{request.rank, request.rank};
  outcome->announced(name, request.collective, std::span(&speaker, 1));
  const int arrived = set->cache.find_arrived(name);
  if (arrived >= 0) to_pending(set, arrived, outcome);
  add_pending(set, member, std::move(request));
  if (arrived >= 0 || set->pending[name].count == 1) {
    for (const int bit : set->cache.bits_of(name)) outcome->disputed(set->id, bit);
  }
  complete_pending(set, name, outcome);
  return {};
}

void Negotiator::complete_pending(Set* set, const std::string& name, Outcome* outcome) {
  const auto it = set->pending.find(name);
  if (set->joined.empty() && it->second.count < set->size()) return;
  std::vector<const Request*> requests;
  std::vector<int> position;
  for (int m = 0; m < set->size(); ++m) {
    const Request* r = it->second.requests[static_cast<std::size_t>(m)].get();
    if (r == nullptr && !set->joined.contains(m)) return;
    if (r == nullptr) continue;
    requests.push_back(r);
    position.push_back(m);
  }
  RODA_INVARIANT(static_cast<int>(requests.size()) == it->second.count, "requests are counted as they come");
  if (requests.empty()) return;
  if (Status error = validate(requests, set->size(), !set->joined.empty()); !error.ok()) {
    const Group group = common_group(requests);
    outcome->refuse(set->id, name, error);
    if (group.size < 2) {
      leave_groups(set, requests, outcome);
    } else {
      close_group(set, set->groups.refuse(group, error), outcome);
    }
    set->pending.erase(it);
    return;
  }
  auto agreed = std::const_pointer_cast<Agreed>(agree(requests, position, set->size()));
  if (agreed->on_device()) {
    const auto next = static_cast<std::int32_t>(set->placements.size());
    agreed->placement = set->placements.try_emplace(agreed->devices, next).first->second;
  }
  if (static_cast<int>(requests.size()) == set->size()) {
    if (const int bit = set->cache.insert(agreed, applied_); bit >= 0) outcome->round_over(set->id, bit);
  }
  if (agreed->group.size < 2) leave_groups(set, requests, outcome);
  set->pending.erase(it);
  outcome->complete(*agreed, speaks_);
  make_ready(set, std::move(agreed), outcome);
}

// A tensor whose ranks named different groups, or not all of them one, is a member of none.
void Negotiator::leave_groups(Set* set, const std::vector<const Request*>& requests, Outcome* outcome) {
  std::map<std::uint64_t, Group> named;
  for (const Request* request : requests) {
    if (request->group.size > 1) named.emplace(request->group.id, request->group);
  }
  for (const auto& [group_id, group] : named) {
    std::vector<std::int32_t> apart;
    for (const Request* request : requests) {
      if (!(request->group == group)) apart.push_back(request->rank);
    }
    close_group(set, set->groups.leave(group, std::move(apart)), outcome);
  }
}

void Negotiator::join(Set* set, int member, Outcome* outcome) {
  set->joined.add(member, member);
  set->last_joined = set->members.rank(member);
  std::vector<std::string> names;
  for (const auto& [name, pending] : set->pending) names.push_back(name);
  for (const std::string& name : names) complete_pending(set, name, outcome);
  for (int bit = 0; bit < set->cache.slots(); ++bit) {
    if (set->cache.holds(bit) && set->is_complete(set->cache.slot(bit).arrived)) complete_cached(set, bit, outcome);
  }
  RODA_INVARIANT(set->joined.count() <= set->size(), "no more ranks join than the set has");
  if (set->joined.count() < set->size()) return;
  // What was ready comes before the end of the join, limits or no limits: what comes after is the next epoch's.
  set->filling.close(0);
  launch_complete(set, outcome);
  while (!set->ready.empty()) {
    take_bucket(&set->ready, settings_.buckets, &launch_.tensors);
    launch_bucket(set, outcome);
  }
  set->joined.clear();
  outcome->join_done(set->id, set->last_joined);
}

bool Negotiator::consent(Votes* votes, const std::vector<std::int32_t>& subject, std::int32_t rank) {
  auto& who = (*votes)[subject];
  who.insert(rank);
  RODA_INVARIANT(static_cast<int>(who.size()) <= settings_.size, "no more ranks ask than the job has");
  if (static_cast<int>(who.size()) < settings_.size) return false;
  votes->erase(subject);
  return true;
}

void Negotiator::launch_ready(Outcome* outcome) {
  for (auto& [id, set] : sets_) {
    set.filling.settle();
    launch_complete(&set, outcome);
    while (!set.ready.empty() && static_cast<int>(set.outstanding.size()) < settings_.outstanding) {
      if (settings_.hold && set.ready_count - set.ready.size() >= set.flushed) break;
      take_bucket(&set.ready, settings_.buckets, &launch_.tensors);
      launch_bucket(&set, outcome);
    }
  }
}

// However many are on their way: they line up on the devices.
void Negotiator::launch_complete(Set* set, Outcome* outcome) {
  while (set->filling.take(&launch_.tensors)) launch_bucket(set, outcome);
}

void Negotiator::launch_bucket(Set* set, Outcome* outcome) {
  RODA_INVARIANT(!launch_.tensors.empty(), "a launch has tensors");
  RODA_INVARIANT(set->outstanding.empty() || set->outstanding.back() <= set->launched,
                 "launches are outstanding in the order of their numbers");
  launch_.set = set->id;
  launch_.sequence = ++set->launched;
  launch_.bytes = table_bytes(launch_.tensors, static_cast<std::size_t>(set->size()));
  launch_.rules = settings_.rules;
  if (!launch_.tensors.front()->on_device()) set->outstanding.push_back(launch_.sequence);
  outcome->launch(launch_);
}

}  // namespace roda::negotiate
