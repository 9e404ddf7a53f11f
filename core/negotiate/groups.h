// Groups: tensors that one call submits together. Their members wait for one another, and are launched all or not at
// all: where the ranks disagree on one, all are refused. A member that some ranks submitted outside the group goes its
// own way, and the others wait no longer for it.
//
// Not thread-safe: owned by the negotiator.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/negotiate/request.h"
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
  std::optional<Closed> agree(AgreedPtr tensor);
  std::optional<Closed> refuse(const Group& group, const Status& error);
  // The same for a member that the world ranks `apart` submitted outside this group.
  std::optional<Closed> leave(const Group& group, std::vector<std::int32_t> apart);

  // Agreed tensors that wait for the rest of their group, by the group's id.
  struct Held {
    std::uint64_t id = 0;
    const Agreed* first = nullptr;
    int missing = 0;  // members that are not decided
  };
  std::vector<Held> held() const;
  bool holds_any() const { return num_held_ != 0; }
  // Who last submitted a member outside a group that others named: then ranks may wait for each other's groups.
  const std::vector<std::int32_t>& last_apart() const { return last_apart_; }

 private:
  struct Open {
    int decided = 0;
    std::int32_t size = 0;
    Closed result;
  };
  std::optional<Closed> decide(const Group& group, Open* open);
  std::map<std::uint64_t, Open> open_;  // by Group::id
  std::size_t num_held_ = 0;
  std::vector<std::int32_t> last_apart_;
};

}  // namespace roda::negotiate
