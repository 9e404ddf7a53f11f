#include "core/negotiate/groups.h"

#include <utility>

namespace roda::negotiate {

std::optional<Groups::Closed> Groups::settle(const Group& group, Open* open) {
  if (++open->settled < group.size) return std::nullopt;
  Closed closed = std::move(open->result);
  open_.erase(group.id);
  return closed;
}

std::optional<Groups::Closed> Groups::agree(AgreedPtr tensor) {
  const Group group = tensor->group;
  Open& open = open_[group.id];
  open.result.agreed.push_back(std::move(tensor));
  return settle(group, &open);
}

std::optional<Groups::Closed> Groups::refuse(const Group& group, const Status& error) {
  Open& open = open_[group.id];
  if (open.result.error.ok()) {
    open.result.error = Status(error.code(), "Another tensor of the same group was refused: " + error.message());
  }
  return settle(group, &open);
}

}  // namespace roda::negotiate
