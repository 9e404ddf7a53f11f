#include "core/launch/set_runtime.h"

#include <algorithm>

#include "core/bootstrap/gather.h"
#include "plugins/base/format.h"
#include "plugins/base/hash.h"
#include "plugins/base/invariant.h"

namespace roda::engine {

Status Contexts::get(const roda_transport* transport, execute::TransportContext** context) {
  const auto is_it = [&](const auto& made) { return &made->transport() == transport; };
  auto found = std::ranges::find_if(contexts_, is_it);
  if (found == contexts_.end()) {
    std::unique_ptr<execute::TransportContext> made;
    RODA_RETURN_IF_ERROR(execute::TransportContext::create(transport, host_, &made));
    found = contexts_.insert(contexts_.end(), std::move(made));
  }
  *context = found->get();
  return {};
}

bool Contexts::are_settled() const {
  return std::ranges::all_of(contexts_, [](const auto& context) { return context->is_settled(); });
}

struct SetRuntime::Group {
  std::unique_ptr<StoreExchange> exchange;
  std::unique_ptr<execute::TransportGroup> group;
  bool is_formed = false;
};

namespace {

// ".0.1.2", or a hash of many: names go into stores and messages.
std::string numbers_or_hash(std::span<const std::int32_t> numbers) {
  constexpr std::size_t kMost = 16;
  std::string text;
  Hash hash;
  for (const std::int32_t number : numbers) {
    hash.add(static_cast<std::uint32_t>(number));
    if (numbers.size() <= kMost) text += "." + std::to_string(number);
  }
  return numbers.size() <= kMost ? text : roda::format(".{}x{}", numbers.front(), hash.value());
}

}  // namespace

SetRuntime::SetRuntime(Options options, Store* store)
    : options_(std::move(options)), store_(store), wire_memory_(options_.residuals) {}
SetRuntime::~SetRuntime() = default;

// Equal on all members of the group and no one else's: the members by number, as a hash where they are many.
std::string SetRuntime::group_name(const execute::TransportContext& context, const GroupPlace& place) const {
  const std::vector<std::int32_t>& members = place.members;
  std::string name = options_.name + "/" + context.name();
  if (!place.devices.empty()) name += "/devices" + numbers_or_hash(place.devices);
  return members.empty() ? name : name + "/group" + numbers_or_hash(members);
}

Status SetRuntime::form(execute::TransportContext& context, const GroupPlace& place,
                        std::unique_ptr<Group>* out) const {
  const std::vector<std::int32_t>& members = place.members;
  execute::GroupOptions options;
  options.name = group_name(context, place);
  options.device = place.device;
  options.world_ranks = options_.ranks;
  options.rank = options_.rank;
  if (!members.empty()) {
    options.world_ranks.clear();
    for (const int member : members) options.world_ranks.push_back(options_.ranks[static_cast<std::size_t>(member)]);
    options.rank = static_cast<int>(std::ranges::find(members, options_.rank) - members.begin());
    RODA_INVARIANT(options.rank < static_cast<int>(members.size()), "a rank forms groups that it is in");
  }
  options.generation = options_.generation;
  options.timeout_ns = options_.timeout_ns;
  options.address = options_.address;
  auto made = std::make_unique<Group>();
  made->exchange = std::make_unique<StoreExchange>(*store_, options.name, options.rank,
                                                   static_cast<int>(options.world_ranks.size()));
  options.exchange = made->exchange->table();
  RODA_RETURN_IF_ERROR(execute::TransportGroup::create(context, std::move(options), &made->group));
  *out = std::move(made);
  return {};
}

Status SetRuntime::group(execute::TransportContext& context, const GroupPlace& place, execute::TransportGroup** group) {
  *group = nullptr;
  std::unique_ptr<Group>& entry = groups_[{context.name(), place.members, place.placement}];
  RODA_INVARIANT(is_member(), "groups of a process set are of its members");
  if (entry == nullptr) RODA_RETURN_IF_ERROR(form(context, place, &entry));
  if (!entry->is_formed) RODA_RETURN_IF_ERROR(entry->group->test(&entry->is_formed));
  if (entry->is_formed) *group = entry->group.get();
  return {};
}

void SetRuntime::abort(const Status& cause) {
  for (auto& [key, entry] : groups_) {
    if (entry != nullptr) entry->group->abort(cause);
  }
}

std::vector<execute::TransportGroup*> SetRuntime::groups() const {
  std::vector<execute::TransportGroup*> found;
  for (const auto& [key, entry] : groups_) {
    if (entry != nullptr) found.push_back(entry->group.get());
  }
  return found;
}

Status SetRuntime::lend(std::size_t bytes, execute::LentMemory** memory) {
  Status found = Status::unavailable("no transport that the process set uses has memory to lend");
  for (const auto& [key, entry] : groups_) {
    const auto& [transport, members, placement] = key;
    const bool is_usable = entry != nullptr && entry->is_formed && members.empty() && placement < 0;
    if (!is_usable) continue;
    const Status status = entry->group->lend(bytes, memory);
    if (status.ok()) return {};
    if (status.code() != RODA_ERR_UNSUPPORTED) found = status;
  }
  return found;
}

void SetRuntime::complete(std::uint64_t sequence) {
  RODA_INVARIANT(sequence > completed_ && !std::ranges::binary_search(early_, sequence), "a launch of a set ends once");
  early_.insert(std::ranges::lower_bound(early_, sequence), sequence);
  auto used = early_.begin();
  for (; used != early_.end() && *used == completed_ + 1; ++used) ++completed_;
  early_.erase(early_.begin(), used);
}

}  // namespace roda::engine
