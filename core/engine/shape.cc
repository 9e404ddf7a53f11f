#include "core/engine/shape.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace roda::engine {

Shape::Shape(const std::vector<int>& host_of, int self) : self_(self) {
  std::map<int, int> rows;
  for (int member = 0; member < static_cast<int>(host_of.size()); ++member) {
    const auto [it, fresh] = rows.emplace(host_of[static_cast<std::size_t>(member)], static_cast<int>(rows_.size()));
    if (fresh) rows_.emplace_back();
    auto& row = rows_[static_cast<std::size_t>(it->second)];
    row_of_.push_back(it->second);
    index_of_.push_back(static_cast<int>(row.size()));
    row.push_back(member);
  }
  const auto [least, most] =
      std::minmax_element(rows_.begin(), rows_.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  if (least == rows_.end()) return;
  least_ = static_cast<int>(least->size());
  most_ = static_cast<int>(most->size());
}

std::vector<int> Shape::members(Scope scope) const {
  if (scope == Scope::kRow) return rows_[static_cast<std::size_t>(row())];
  std::vector<int> members;
  if (scope == Scope::kAll) {
    members.resize(row_of_.size());
    std::iota(members.begin(), members.end(), 0);
    return members;
  }
  for (const auto& row : rows_) members.push_back(row[static_cast<std::size_t>(index())]);
  return members;
}

std::string Shape::suffix(Scope scope) const {
  if (scope == Scope::kRow) return "/row" + std::to_string(row());
  if (scope == Scope::kColumn) return "/column" + std::to_string(index());
  return "";
}

}  // namespace roda::engine
