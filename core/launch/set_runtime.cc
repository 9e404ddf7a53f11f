#include "core/launch/set_runtime.h"

#include <algorithm>

#include "core/bootstrap/exchange.h"

namespace roda::engine {

Status Contexts::get(const roda_transport* transport, execute::TransportContext** context) {
  for (const auto& c : contexts_) {
    if (&c->transport() == transport) {
      *context = c.get();
      return {};
    }
  }
  std::unique_ptr<execute::TransportContext> made;
  RODA_RETURN_IF_ERROR(execute::TransportContext::create(transport, host_, &made));
  *context = made.get();
  contexts_.push_back(std::move(made));
  return {};
}

bool Contexts::are_settled() const {
  return std::all_of(contexts_.begin(), contexts_.end(), [](const auto& context) { return context->is_settled(); });
}

struct SetRuntime::Group {
  std::unique_ptr<StoreExchange> exchange;
  std::unique_ptr<execute::TransportGroup> group;
  std::unique_ptr<execute::StagePool> pool;  // after the group in life, before it in death
};

namespace {

// Names go into stores and messages.
std::string shortened(const std::string& text) {
  constexpr std::size_t kLongest = 40;
  if (text.size() <= kLongest) return text;
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return ".x" + std::to_string(hash);
}

bool is_communicator(execute::TransportGroup& group) {
  constexpr std::uint64_t kOther = RODA_CAP_P2P | RODA_CAP_SIGNAL | RODA_CAP_GET | RODA_CAP_PUT;
  const std::uint64_t capabilities = group.context().capabilities();
  return (capabilities & RODA_CAP_NATIVE) != 0 && (capabilities & kOther) == 0;
}

}  // namespace

SetRuntime::SetRuntime(Options options, Store* store) : options_(std::move(options)), store_(store) {}
SetRuntime::~SetRuntime() = default;

// Equal on all members of the group and no one else's: the members by number, as a hash where they are many.
std::string SetRuntime::group_name(const execute::TransportContext& context, const GroupPlace& place) const {
  const Members& members = place.members;
  std::string name = options_.name + "/" + context.name();
  if (!place.devices.empty()) name += "/devices" + shortened(place.devices);
  constexpr std::size_t kMostNumbers = 16;
  std::uint64_t hash = 0xcbf29ce484222325u;
  std::string numbers;
  for (const std::int32_t member : members) {
    hash = (hash ^ static_cast<std::uint32_t>(member)) * 0x100000001b3u;
    if (members.size() <= kMostNumbers) numbers += "." + std::to_string(member);
  }
  if (members.empty()) return name;
  if (numbers.empty()) numbers = "." + std::to_string(members.front()) + "x" + std::to_string(hash);
  return name + "/group" + numbers;
}

Status SetRuntime::stages(execute::TransportContext& context, const GroupPlace& place, execute::StagePool** pool,
                          bool* ready) {
  *ready = false;
  const Members& members = place.members;
  std::unique_ptr<Group>& entry = groups_[{context.name(), members, place.devices}];
  if (entry == nullptr) {
    auto made = std::make_unique<Group>();
    execute::GroupOptions group;
    group.name = group_name(context, place);
    group.device = place.device;
    for (const int member : members) group.world_ranks.push_back(options_.ranks[static_cast<std::size_t>(member)]);
    group.rank = static_cast<int>(std::find(members.begin(), members.end(), options_.rank) - members.begin());
    if (members.empty()) {
      group.world_ranks = options_.ranks;
      group.rank = options_.rank;
    }
    group.generation = options_.generation;
    group.timeout_ns = options_.timeout_ns;
    made->exchange =
        std::make_unique<StoreExchange>(*store_, group.name, group.rank, static_cast<int>(group.world_ranks.size()));
    group.exchange = made->exchange->table();
    RODA_RETURN_IF_ERROR(execute::TransportGroup::create(context, std::move(group), &made->group));
    entry = std::move(made);
  }
  if (entry->pool == nullptr) {
    bool formed = false;
    RODA_RETURN_IF_ERROR(entry->group->test(&formed));
    if (!formed) return {};
    entry->pool = std::make_unique<execute::StagePool>(*entry->group, options_.execute);
  }
  *pool = entry->pool.get();
  *ready = true;
  return {};
}

void SetRuntime::abort(const Status& cause) {
  for (auto& [key, entry] : groups_) {
    if (entry != nullptr && entry->group != nullptr) entry->group->abort(cause);
  }
}

std::vector<execute::TransportGroup*> SetRuntime::communicators() const {
  std::vector<execute::TransportGroup*> found;
  for (const auto& [key, entry] : groups_) {
    if (entry != nullptr && is_communicator(*entry->group)) found.push_back(entry->group.get());
  }
  return found;
}

void SetRuntime::end_communicators() {
  composed_.clear();
  routes_.clear();
  std::erase_if(groups_, [](const auto& each) {
    const std::unique_ptr<Group>& entry = each.second;
    return entry != nullptr && is_communicator(*entry->group);
  });
}

void SetRuntime::complete(std::uint64_t sequence) {
  early_.insert(std::lower_bound(early_.begin(), early_.end(), sequence), sequence);
  std::size_t used = 0;
  while (used < early_.size() && early_[used] == completed_ + 1) {
    ++completed_;
    ++used;
  }
  early_.erase(early_.begin(), early_.begin() + static_cast<std::ptrdiff_t>(used));
}

}  // namespace roda::engine
