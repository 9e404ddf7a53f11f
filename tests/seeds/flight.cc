#include "tests/seeds/flight.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/launch/payload.h"
#include "plugins/base/format.h"

namespace roda::seeds {
namespace {

void put(std::byte* to, std::int32_t dtype, double value) {
  const auto store = [&](auto as) { std::memcpy(to, &as, sizeof as); };
  if (dtype == RODA_FLOAT64) return store(value);
  if (dtype == RODA_FLOAT32) return store(static_cast<float>(value));
  return dtype == RODA_INT32 ? store(static_cast<std::int32_t>(value)) : store(static_cast<std::int64_t>(value));
}

double get(const std::byte* from, std::int32_t dtype) {
  const auto load = [&](auto as) {
    std::memcpy(&as, from, sizeof as);
    return static_cast<double>(as);
  };
  if (dtype == RODA_FLOAT64) return load(double{});
  if (dtype == RODA_FLOAT32) return load(float{});
  return dtype == RODA_INT32 ? load(std::int32_t{}) : load(std::int64_t{});
}

bool is_nothing(const Call& call) { return call.collective == RODA_BARRIER || call.collective == RODA_JOIN; }

}  // namespace

Flight::Flight(const Call& call, std::size_t number, int rank)
    : call_(call),
      salt_(number * 3),
      rank_(rank),
      place_(static_cast<std::size_t>(std::ranges::find(call.members, rank) - call.members.begin())),
      width_(static_cast<std::size_t>(std::max<std::int64_t>(call.width, 1))) {
  if (is_nothing(call)) return;
  const std::size_t element = roda_dtype_size(call.dtype);
  for (std::size_t t = 0; t < call.tensors; ++t) {
    const std::size_t count = elements_of(rank_), spare = call.odd >= 0 ? width_ : 0;
    std::vector<std::byte>& input = inputs_.emplace_back((count + spare) * 8);
    for (std::size_t i = 0; i < count; ++i) put(&input[i * element], call.dtype, value(rank_, i, t));
    std::vector<std::byte>& output = outputs_.emplace_back(input.size(), std::byte{0x5a});
    if (call.is_in_place) output = input;
  }
}

std::int32_t Flight::rows_between(std::size_t from, std::size_t to) const {
  return call_.rows % 2 != 0 ? 1 : static_cast<std::int32_t>((from * 3 + to * 5 + salt_) % 4);
}

std::int64_t Flight::rows_of(std::int32_t rank) const {
  if (call_.width == 0) return 1;
  if (call_.collective == RODA_ALLGATHER) return call_.rows + rank % 3;
  if (call_.collective != RODA_ALLTOALL) return call_.rows;
  const auto from = static_cast<std::size_t>(std::ranges::find(call_.members, rank) - call_.members.begin());
  std::int64_t rows = 0;
  for (std::size_t to = 0; to < call_.members.size(); ++to) rows += rows_between(from, to);
  return rows;
}

std::size_t Flight::elements_of(std::int32_t rank) const { return static_cast<std::size_t>(rows_of(rank)) * width_; }

double Flight::value(std::int32_t rank, std::size_t at, std::size_t tensor) const {
  const std::size_t place = at + 3 * tensor + salt_;
  const auto of_rank = static_cast<std::size_t>(rank);
  if (call_.collective == RODA_ADASUM_ALLREDUCE) {  // of vectors that have nothing in common it is the sum
    const std::size_t owner = place % call_.members.size();
    return call_.members[owner] == rank ? static_cast<double>(1 + (of_rank * 5 + place) % 61) : 0;
  }
  if (call_.op == RODA_MIN || call_.op == RODA_MAX) return static_cast<double>((of_rank * 5 + place * 3) % 31);
  if (call_.op == RODA_PRODUCT) return static_cast<double>(1 + (of_rank + place) % 2);
  return std::ldexp(static_cast<double>(1 + place % 7), 3 * rank);
}

double Flight::combined(std::size_t at, std::size_t tensor) const {
  double all = value(call_.members.front(), at, tensor);
  for (std::size_t m = 1; m < call_.members.size(); ++m) {
    const double one = value(call_.members[m], at, tensor);
    if (call_.op == RODA_MIN) {
      all = std::min(all, one);
    } else if (call_.op == RODA_MAX) {
      all = std::max(all, one);
    } else {
      all = call_.op == RODA_PRODUCT ? all * one : all + one;
    }
  }
  all *= call_.prescale * call_.postscale;
  if (call_.op != RODA_AVERAGE) return all;
  all /= static_cast<double>(call_.members.size());
  return roda_dtype_is(call_.dtype, RODA_INTEGER) != 0 ? std::trunc(all) : all;
}

std::vector<double> Flight::expected(std::size_t tensor) const {
  std::vector<double> values;
  const auto gather = [&](std::int32_t from, std::size_t begin, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) values.push_back(value(from, begin + i, tensor));
  };
  const auto combine = [&](std::size_t begin, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) values.push_back(combined(begin + i, tensor));
  };
  const auto rows_of_place = [&](std::size_t place) {
    const auto rows =
        engine::reducescatter_rows(call_.rows, static_cast<int>(call_.members.size()), static_cast<int>(place));
    return static_cast<std::size_t>(rows);
  };
  switch (call_.collective) {
    case RODA_BROADCAST:
      gather(call_.root, 0, elements_of(rank_));
      break;
    case RODA_ALLGATHER:
      for (const std::int32_t from : call_.members) gather(from, 0, elements_of(from));
      break;
    case RODA_ALLTOALL:
      for (std::size_t from = 0; from < call_.members.size(); ++from) {
        std::size_t begin = 0;
        for (std::size_t to = 0; to < place_; ++to) begin += static_cast<std::size_t>(rows_between(from, to));
        gather(call_.members[from], begin * width_, static_cast<std::size_t>(rows_between(from, place_)) * width_);
      }
      break;
    case RODA_REDUCESCATTER: {
      std::size_t begin = 0;
      for (std::size_t place = 0; place < place_; ++place) begin += rows_of_place(place);
      combine(begin * width_, rows_of_place(place_) * width_);
      break;
    }
    default:
      combine(0, elements_of(rank_));
  }
  return values;
}

// Averages of floats are rounded; Adasum over hosts is of their sums, divided by a host's ranks.
bool Flight::is_right(double got, double right) const {
  const double slack = call_.dtype == RODA_FLOAT32 ? 1e-6 : 1e-14;
  const bool is_rounded = call_.op == RODA_AVERAGE && roda_dtype_is(call_.dtype, RODA_FLOAT) != 0;
  if (call_.collective != RODA_ADASUM_ALLREDUCE) return std::abs(got - right) <= (is_rounded ? slack * right : 0);
  for (std::size_t ranks = 1; ranks <= call_.members.size(); ++ranks) {
    if (std::abs(got * static_cast<double>(ranks) - right) <= slack * right) return true;
  }
  return false;
}

void* Flight::give(void* context, const std::int64_t*, std::int32_t, std::uint64_t bytes) {
  auto& memory = *static_cast<std::vector<std::byte>*>(context);
  memory.assign(bytes + 8, std::byte{0x5a});
  return memory.data();
}

void Flight::disagree(engine::Operation* op) const {
  using Oddity = Call::Oddity;
  negotiate::Request& request = op->request;
  switch (call_.odd_in) {
    case Oddity::kDtype:
      request.dtype = call_.dtype == RODA_INT32 ? RODA_UINT8 : RODA_INT32;
      break;
    case Oddity::kRows:
      ++request.shape.at(0);
      break;
    case Oddity::kRoot:
      request.root = call_.members[call_.members[0] == call_.root ? 1 : 0];
      break;
    case Oddity::kOp:
      request.op = call_.op == RODA_SUM ? RODA_AVERAGE : RODA_SUM;
      break;
    case Oddity::kFactor:
      request.postscale = 3;
      break;
    case Oddity::kCollective:
      request.collective = call_.collective == RODA_ALLGATHER ? RODA_ALLREDUCE : RODA_ALLGATHER;
      request.root = 0;
      request.splits.clear();
  }
}

void Flight::fill(std::int32_t set, std::span<engine::Operation> operations) {
  std::vector<std::string> names;
  for (std::size_t t = 0; t < operations.size(); ++t) {
    engine::Operation& op = operations[t];
    negotiate::Request& request = op.request = negotiate::Request();
    request.set = set;
    request.collective = call_.collective;
    request.name = call_.collective == RODA_JOIN ? engine::kJoinName : engine::kBarrierName;
    if (is_nothing(call_)) continue;
    request.name = call_.name + (call_.tensors > 1 ? "." + std::to_string(t) : "");
    request.dtype = call_.dtype;
    request.op = call_.op;
    request.prescale = call_.prescale;
    request.postscale = call_.postscale;
    request.root = roda_collective_is(call_.collective, RODA_ROOTED) != 0 ? call_.root : 0;
    if (call_.width != 0) request.shape = {rows_of(rank_), call_.width};
    op.input = call_.is_in_place ? outputs_[t].data() : inputs_[t].data();
    const bool has_output = roda_collective_of(call_.collective)->output == RODA_WHOLE;
    op.output = has_output && call_.collective != RODA_REDUCE ? outputs_[t].data() : nullptr;
    if (op.output == nullptr && call_.gives_memory) {
      op.allocate = &Flight::give;
      op.allocate_context = &outputs_[t];
    }
    for (std::size_t to = 0; call_.collective == RODA_ALLTOALL && to < call_.members.size(); ++to) {
      request.splits.push_back(rows_between(place_, to));
    }
    if (call_.odd == rank_ && t == 0) disagree(&op);
    names.push_back(request.name);
  }
  if (operations.size() < 2) return;
  const negotiate::Group group{negotiate::group_id(names), static_cast<std::int32_t>(names.size())};
  for (engine::Operation& op : operations) op.request.group = group;
}

std::string Flight::check(std::span<const engine::Operation> operations) const {
  if (call_.odd >= 0) return call_.name + " has a result, though rank " + std::to_string(call_.odd) + " disagrees";
  if (is_nothing(call_)) return "";
  if (call_.collective == RODA_REDUCE && rank_ != call_.root) return "";
  for (std::size_t t = 0; t < operations.size(); ++t) {
    if (std::string wrong = check_one(operations[t], t); !wrong.empty()) return wrong;
  }
  return "";
}

std::string Flight::check_one(const engine::Operation& op, std::size_t tensor) const {
  const std::vector<double> expected = this->expected(tensor);
  std::int64_t count = 1;
  for (const std::int64_t size : op.result_shape) count *= size;
  if (count != static_cast<std::int64_t>(expected.size()) || op.result_shape.size() != op.request.shape.size()) {
    return roda::format("{} has {} elements in place of {}", call_.name, count, expected.size());
  }
  const auto* got = static_cast<const std::byte*>(op.result != nullptr ? op.result->data() : op.output);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double value = get(got + i * roda_dtype_size(call_.dtype), call_.dtype);
    if (is_right(value, expected[i])) continue;
    return roda::format("{}[{}] is {} in place of {}", call_.name, i, value, expected[i]);
  }
  for (std::size_t from = 0; call_.collective == RODA_ALLTOALL && from < call_.members.size(); ++from) {
    if (op.received_splits.at(from) == rows_between(from, place_)) continue;
    return roda::format("{} says that member {} has sent {} rows", call_.name, from, op.received_splits[from]);
  }
  return "";
}

}  // namespace roda::seeds
