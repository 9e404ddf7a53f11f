// Groups: tensors that one call submits together. Their members wait for one another, and are launched all or not at
// all: where the ranks disagree on one, all are refused.
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
  // A group whose members are all settled. OK: launch them, in the order in which they were agreed. Otherwise end those
  // that were agreed with `error`; the refused ones have ended already.
  struct Closed {
    std::vector<AgreedPtr> agreed;
    Status error;
  };
  // One member more is settled, by agreement or by an error. Nothing until that was the last one.
  std::optional<Closed> agree(AgreedPtr tensor);
  std::optional<Closed> refuse(const Group& group, const Status& error);

 private:
  struct Open {
    int settled = 0;
    Closed result;
  };
  std::optional<Closed> settle(const Group& group, Open* open);
  std::map<std::uint64_t, Open> open_;  // by Group::id
};

}  // namespace roda::negotiate
