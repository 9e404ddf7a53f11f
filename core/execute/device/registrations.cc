#include "core/execute/device/registrations.h"

#include <algorithm>
#include <string>

#include "core/execute/group.h"

namespace roda::execute {
namespace {

void note(TransportGroup& group, std::size_t bytes, const Status& why) {
  const roda_host& host = group.context().host();
  if (host.log == nullptr) return;
  const std::string text = std::to_string(bytes) + " bytes are used by group " + group.name() + " over " +
                           group.context().name() + " without being registered: " + why.message();
  host.log(host.self, RODA_LOG_DEBUG, "execute", text.c_str());
}

}  // namespace

void Registrations::add(TransportGroup& group, const roda_memory& memory) {
  const bool was_asked =
      std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.group == &group; });
  if (was_asked) return;
  Entry entry{&group, memory, false};
  const Status status = group.register_memory(&entry.memory);
  entry.is_registered = status.ok();
  if (!status.ok()) note(group, memory.length, status);
  entries_.push_back(entry);
}

bool Registrations::can_clear() const {
  return std::all_of(entries_.begin(), entries_.end(), [](const Entry& entry) {
    return !entry.is_registered || entry.group->quiesced(entry.memory.address, entry.memory.length);
  });
}

void Registrations::clear() {
  for (Entry& entry : entries_) {
    if (entry.is_registered) entry.group->deregister_memory(&entry.memory);
  }
  entries_.clear();
}

void Registrations::remove(TransportGroup& group) {
  const auto is_it = [&](const Entry& entry) { return entry.group == &group; };
  const auto entry = std::find_if(entries_.begin(), entries_.end(), is_it);
  if (entry == entries_.end()) return;
  if (entry->is_registered) group.deregister_memory(&entry->memory);
  entries_.erase(entry);
}

}  // namespace roda::execute
