#include "tools/perf/workload.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/common/names.h"
#include "tools/perf/pattern.h"

namespace roda::perf {

namespace {

constexpr int kRoot = 0;

const roda_collective_entry& data_of(std::int32_t collective) { return *roda_collective_of(collective); }

// Every rank sends or receives one part per rank.
bool splits(std::int32_t collective) {
  return data_of(collective).input == RODA_ALL_PARTS || data_of(collective).output == RODA_ALL_PARTS;
}

std::string make_name(const Case& what) {
  return "perf." + tools::collective_text(what.collective) + "." + roda_dtype_name(what.dtype) + "." +
         roda_reduce_op_name(what.op) + "." + std::to_string(what.bytes) + (what.in_place ? ".in" : ".out");
}

}  // namespace

bool reduces(std::int32_t collective) { return roda_collective_is(collective, RODA_COMBINES) != 0; }

bool has_both_places(std::int32_t collective) {
  return reduces(collective) && data_of(collective).output == RODA_WHOLE;
}

std::string what_runs(const Case& what) {
  const bool is_adasum = what.collective == RODA_ALLREDUCE && what.op == RODA_ADASUM;
  char* text = roda_explain(is_adasum ? int{RODA_ADASUM_ALLREDUCE} : what.collective, what.bytes, 0, 2, nullptr);
  if (text == nullptr) return "?";
  const auto plan = nlohmann::json::parse(text, nullptr, false);
  roda_free_text(text);
  if (!plan.is_object() || !plan.contains("runs")) return "?";
  return plan["runs"].value("transport", "?") + "/" + plan["runs"].value("algorithm", "?");
}

double tolerance_of(const Case& what, int ranks) {
  const bool is_formatted = what.dtype == RODA_FLOAT32 && (what.op == RODA_SUM || what.op == RODA_AVERAGE);
  char* text = is_formatted ? roda_explain(what.collective, what.bytes, 0, 1, nullptr) : nullptr;
  if (text == nullptr) return 0;
  const auto plan = nlohmann::json::parse(text, nullptr, false);
  roda_free_text(text);
  if (!plan.is_object() || !plan.contains("formats")) return 0;
  double most = 0;
  for (int rank = 0; rank < ranks; ++rank) most += Pattern::largest(what.op, rank);
  return plan["formats"].value("error_bound", 0.0) * most / (what.op == RODA_AVERAGE ? ranks : 1);
}

Workload::Workload(const Session& session, const Case& what)
    : case_(what), rank_(session.rank()), ranks_(session.size()), element_(roda_dtype_size(what.dtype)) {
  const std::size_t parts = splits(what.collective) ? static_cast<std::size_t>(ranks_) : 1;
  rows_ = what.collective == RODA_BARRIER ? 0 : std::max<std::size_t>(1, what.bytes / element_ / parts);
  count_ = rows_ * parts;
  name_ = make_name(case_);
  const std::size_t sent = data_of(what.collective).input == RODA_OWN_PART ? rows_ : count_;
  shape_ = static_cast<std::int64_t>(sent);
  input_.resize(sent * element_);
  if (data_of(what.collective).output == RODA_OWN_PART) output_.resize(rows_ * element_);
  if (has_both_places(what.collective) && !what.in_place) output_.resize(input_.size());
}

roda_op Workload::make_op() {
  roda_op op = Session::make_op(case_.collective, name_.c_str());
  op.dtype = case_.dtype;
  op.ndim = 1;
  op.shape = &shape_;
  op.input = input_.data();
  op.op = case_.op;
  op.root = kRoot;
  op.flags = RODA_OP_WILL_WAIT;
  if (!output_.empty()) op.output = output_.data();
  if (data_of(case_.collective).output == RODA_WHOLE && case_.in_place) op.output = input_.data();
  return op;
}

void Workload::run() {
  const roda_op op = make_op();
  Session::submit(&op, 1).wait();
}

void Workload::fill() { Pattern::input(case_.dtype, case_.op, rank_).fill(input_.data(), 0, input_.size() / element_); }

bool Workload::check() {
  fill();
  const roda_op op = make_op();
  Pending pending = Session::submit(&op, 1);
  pending.wait();
  if (case_.collective == RODA_BARRIER) return true;
  const bool owned = data_of(case_.collective).output == RODA_ALL_PARTS;
  const bool has_result = rank_ == kRoot || roda_collective_is(case_.collective, RODA_COMBINES | RODA_ROOTED) == 0;
  const void* output = owned ? pending.output(0) : op.output;
  const bool input_kept =
      (has_result && output == input_.data()) ||
      Pattern::input(case_.dtype, case_.op, rank_).matches(input_.data(), 0, input_.size() / element_);
  return input_kept && (!has_result || result_is_right(output));
}

bool Workload::result_is_right(const void* output) const {
  const auto* data = static_cast<const std::byte*>(output);
  const std::size_t mine = static_cast<std::size_t>(rank_) * rows_;
  if (reduces(case_.collective)) {
    const std::size_t first = data_of(case_.collective).output == RODA_OWN_PART ? mine : 0;
    const Pattern wanted = Pattern::reduced(case_.dtype, case_.op, ranks_);
    const double tolerance = tolerance_of(case_, ranks_);
    return tolerance == 0 ? wanted.matches(data, first, rows_) : wanted.is_near(data, first, rows_, tolerance);
  }
  if (data_of(case_.collective).output == RODA_WHOLE) {
    return Pattern::input(case_.dtype, case_.op, kRoot).matches(data, 0, rows_);
  }
  for (int peer = 0; peer < ranks_; ++peer, data += rows_ * element_) {
    const std::size_t first = case_.collective == RODA_ALLTOALL ? mine : 0;
    if (!Pattern::input(case_.dtype, case_.op, peer).matches(data, first, rows_)) return false;
  }
  return true;
}

}  // namespace roda::perf
