#include "core/negotiate/groups.h"

#include <utility>

namespace roda::negotiate {

std::optional<Groups::Closed> Groups::decide(const Group& group, Open* open) {
  open->size = group.size;
  if (++open->decided < group.size) return std::nullopt;
  Closed closed = std::move(open->result);
  num_held_ -= closed.agreed.size();
  open_.erase(group.id);
  return closed;
}

std::optional<Groups::Closed> Groups::agree(AgreedPtr tensor) {
  const Group group = tensor->group;
  Open& open = open_[group.id];
  open.result.agreed.push_back(std::move(tensor));
  ++num_held_;
  return decide(group, &open);
}

std::optional<Groups::Closed> Groups::refuse(const Group& group, const Status& error) {
  Open& open = open_[group.id];
  if (open.result.error.ok()) {
    open.result.error = Status(error.code(), "Another tensor of the same group was refused: " + error.message());
  }
  return decide(group, &open);
}

std::optional<Groups::Closed> Groups::leave(const Group& group, std::vector<std::int32_t> apart) {
  last_apart_ = std::move(apart);
  return decide(group, &open_[group.id]);
}

std::vector<Groups::Held> Groups::held() const {
  std::vector<Held> out;
  for (const auto& [id, open] : open_) {
    if (open.result.agreed.empty()) continue;
    out.push_back({id, open.result.agreed.front().get(), open.size - open.decided});
  }
  return out;
}

}  // namespace roda::negotiate
