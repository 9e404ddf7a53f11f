// The checks that ranks' requests for one tensor must pass together, in the order and with the texts of the contract.
#pragma once

#include <vector>

#include "core/negotiate/request.h"

namespace roda::negotiate {

// `requests` holds one entry per member that takes part (joined members are absent), in member order. `members` is the
// set's size; `joined` says whether some member has joined. Returns the error that every rank raises for this tensor:
// it begins with the contract's text and goes on with the ranks and their values. Ranks that agree on what cannot be
// done are told it is an invalid argument. Pure.
Status validate(const std::vector<const Request*>& requests, int members, bool joined);

// The group that all of them name; none where they differ.
Group common_group(const std::vector<const Request*>& requests);

// The agreement that valid requests stand for. `members` is the set's size; `position[i]` is the member index of
// requests[i]. Members without a request (joined) contribute zero rows, or the common shape's for an allreduce.
AgreedPtr agree(const std::vector<const Request*>& requests, const std::vector<int>& position, int members);

}  // namespace roda::negotiate
