// Groups: tensors that one call submits together. Their members wait for one another, and are launched all or not at
// all: where the ranks disagree on one, all are refused. A member that some ranks submitted outside the group goes its
// own way, and the others wait no longer for it.
//
// Not thread-safe: owned by the negotiator.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/negotiate/request.h"
#include "plugins/base/invariant.h"
#include "plugins/base/status.h"

namespace roda::negotiate {

class Groups {
 public:
  // A group whose members are all decided. OK: launch them, in the order in which they were agreed. Otherwise end those
  // that were agreed with `error`; the refused ones have ended already.
  struct Closed {
    std::vector<AgreedPtr> agreed;
    Status error;
  };
  // One member more is decided, by agreement or by an error. Nothing until that was the last one.
  std::optional<Closed> agree(AgreedPtr tensor) {
    const Group group = tensor->group;
    RODA_INVARIANT(group.id != 0, "a tensor that waits for others names their group");
    Open& open = open_[group.id];
    open.result.agreed.push_back(std::move(tensor));
    return decide(group, &open);
  }

  std::optional<Closed> refuse(const Group& group, const Status& error) {
    RODA_INVARIANT(!error.ok(), "a member that is refused has an error");
    Open& open = open_[group.id];
    if (open.result.error.ok()) {
      open.result.error = Status(error.code(), "Another tensor of the same group was refused: " + error.message());
    }
    return decide(group, &open);
  }

  // The same for a member that the world ranks `apart` submitted outside this group.
  std::optional<Closed> leave(const Group& group, std::vector<std::int32_t> apart) {
    last_apart_ = std::move(apart);
    return decide(group, &open_[group.id]);
  }

  // Agreed tensors that wait for the rest of their group, by the group's id.
  struct Held {
    std::uint64_t id = 0;
    const Agreed* first = nullptr;
    int missing = 0;  // members that are not decided
  };
  std::vector<Held> held() const {
    std::vector<Held> out;
    for (const auto& [id, open] : open_) {
      if (open.result.agreed.empty()) continue;
      out.push_back({id, open.result.agreed.front().get(), open.size - open.decided});
    }
    return out;
  }

  // Who last submitted a member outside a group that others named: then ranks may wait for each other's groups.
  const std::vector<std::int32_t>& last_apart() const { return last_apart_; }

 private:
  struct Open {
    int decided = 0;
    std::int32_t size = 0;
    Closed result;
  };
  std::optional<Closed> decide(const Group& group, Open* open) {
    open->size = group.size;
    RODA_INVARIANT(open->decided < open->size, "no more members of a group are decided than it has");
    if (++open->decided < group.size) return std::nullopt;
    Closed closed = std::move(open->result);
    open_.erase(group.id);
    return closed;
  }

  std::map<std::uint64_t, Open> open_;  // by Group::id
  std::vector<std::int32_t> last_apart_;
};

}  // namespace roda::negotiate
