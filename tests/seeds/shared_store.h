// One store for all ranks, each of which owns its own.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/bootstrap/store.h"

namespace roda::seeds {

class SharedStore final : public LocalStore {
 public:
  explicit SharedStore(SharedStore* all = nullptr) : all_(all == nullptr ? this : all) {}

 protected:
  Status tell(StoreOp op, const std::string& key, std::string_view value, int rank) override {
    return all_->LocalStore::tell(op, key, value, rank);
  }
  Status ask(const Question& question, std::optional<Deadline> deadline, std::string* answer, bool* found) override {
    return all_->LocalStore::ask(question, deadline, answer, found);
  }

 private:
  SharedStore* all_;
};

}  // namespace roda::seeds
