// One round over a store: every rank says something, rank 0 makes one result of it, every rank gets that.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/bootstrap/store.h"

namespace roda {

// `combine` runs on rank 0 only, with the texts by rank. An error that rank 0 meets (its own, combine's, or a rank that
// stays away) becomes every rank's error. The result may have any size; `mine` is at most Store::kMaxValue. Blocks.
// Keys stay below "<prefix>/"; a prefix is used once per store.
Status gather(Store& store, int rank, int size, const std::string& prefix, const std::string& mine, Deadline deadline,
              const std::function<Status(const std::vector<std::string>& all, std::string* result)>& combine,
              std::string* result);

// Every rank gives the same text, or every rank gets an error that names the odd ranks (those outside the largest
// group) and the lines ("NAME=value") that differ.
Status check_agreement(Store& store, int rank, int size, const std::string& prefix, const std::string& text,
                       Deadline deadline);

}  // namespace roda
