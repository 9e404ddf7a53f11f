#include "core/negotiate/request.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <numeric>
#include <sstream>
#include <tuple>

namespace roda::negotiate {
namespace {

using Requests = std::vector<const Request*>;
using Text = std::function<std::string(const Request&)>;

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::ostringstream out;
  out << '[';
  for (std::size_t i = 0; i < shape.size(); ++i) out << (i ? ", " : "") << shape[i];
  out << ']';
  return out.str();
}

bool is(const Request& r, std::uint32_t traits) { return roda_collective_is(r.collective, traits) != 0; }

// "tensor 'x': ranks 0, 2: float32; rank 1: float64" - who said what, so that the odd rank is seen at once.
std::string who_said(const Requests& requests, const Text& value) {
  std::map<std::string, std::vector<int>> said;
  for (const Request* r : requests) said[value(*r)].push_back(r->rank);
  std::ostringstream out;
  out << " (tensor '" << requests.front()->name << "': ";
  bool first = true;
  for (const auto& [text, ranks] : said) {
    out << (first ? "" : "; ") << (ranks.size() == 1 ? "rank " : "ranks ");
    for (std::size_t i = 0; i < ranks.size(); ++i) out << (i ? ", " : "") << ranks[i];
    out << ": " << text;
    first = false;
  }
  out << ')';
  return out.str();
}

// The first request whose value differs from the first one's; nullptr when all agree.
const Request* odd_one(const Requests& requests, auto value) {
  for (const Request* r : requests) {
    if (value(*r) != value(*requests.front())) return r;
  }
  return nullptr;
}

std::string op_name(const Request& r) { return roda_collective_name(r.collective); }
std::string dtype_name(const Request& r) { return roda_dtype_name(r.dtype); }
std::string device_kind(const Request& r) { return r.device < 0 ? "CPU" : "GPU"; }

// Why not all have the value of the first one: "Mismatched <what>: One rank <phrase>, but another rank <phrase>.", and
// who has which; "" when they have. The collective's name stands before a `what` that begins with a space.
template <typename Value, typename Phrase, typename Shown>
std::string mismatch(const Requests& requests, const char* what, Value value, Phrase phrase, Shown shown) {
  const Request* other = odd_one(requests, value);
  if (other == nullptr) return "";
  return "Mismatched " + (what[0] == ' ' ? op_name(*requests.front()) : "") + what + ": One rank " +
         phrase(*requests.front()) + ", but another rank " + phrase(*other) + "." + who_said(requests, shown);
}

std::string own_shape(const Request& r) { return shape_text(r.shape); }

std::string check_shapes(const Requests& requests) {
  return mismatch(
      requests, " tensor shapes", [](const Request& r) { return r.shape; },
      [](const Request& r) { return "sent a tensor of shape " + own_shape(r); }, own_shape);
}

std::string check_rows(const Requests& requests) {
  constexpr const char* what = " tensor shapes";
  std::string error = mismatch(
      requests, what, [](const Request& r) { return r.shape.size(); },
      [](const Request& r) { return "sent a tensor of rank " + std::to_string(r.shape.size()); }, own_shape);
  for (std::size_t d = 1; error.empty() && d < requests.front()->shape.size(); ++d) {
    const auto phrase = [d](const Request& r) {
      return "sent a tensor with dimension " + std::to_string(d) + " equal to " + std::to_string(r.shape[d]);
    };
    error = mismatch(
        requests, what, [d](const Request& r) { return r.shape[d]; }, phrase, own_shape);
  }
  return error;
}

// An average is a factor too, where sums and averages are all there is. Factors are compared as bits: NaN is itself.
std::string check_scales(const Requests& requests) {
  const auto value = [](const Request& r) {
    const int op = is(r, RODA_SUMS_ONLY) ? r.op : 0;
    return std::tuple(std::bit_cast<std::uint64_t>(r.prescale), std::bit_cast<std::uint64_t>(r.postscale), op);
  };
  const auto shown = [](const Request& r) {
    std::ostringstream out;
    out << "prescale " << r.prescale << ", postscale " << r.postscale;
    if (is(r, RODA_SUMS_ONLY)) out << ", op " << roda_reduce_op_name(r.op);
    return out.str();
  };
  const auto phrase = [&](const Request& r) { return "sent factors (" + shown(r) + ")"; };
  return mismatch(requests, "prescale and/or postscale factors", value, phrase, shown);
}

std::string check_reduce_op(const Requests& requests) {
  return mismatch(
      requests, "reduction operation", [](const Request& r) { return r.op; },
      [](const Request& r) { return "requested " + std::to_string(r.op); },
      [](const Request& r) { return std::string(roda_reduce_op_name(r.op)); });
}

std::string check_wire_format(const Requests& requests) {
  const auto name = [](const Request& r) { return std::string(roda_wire_formats[r.wire_format].name); };
  return mismatch(
      requests, "wire formats", [](const Request& r) { return r.wire_format; },
      [&](const Request& r) { return "asked for " + name(r); }, name);
}

std::string check_root(const Requests& requests) {
  return mismatch(
      requests, " root ranks", [](const Request& r) { return r.root; },
      [](const Request& r) { return "specified root rank " + std::to_string(r.root); },
      [](const Request& r) { return "root " + std::to_string(r.root); });
}

std::string check_device(const Requests& requests) {
  return mismatch(
      requests, " CPU/GPU device selection", [](const Request& r) { return r.device < 0; },
      [](const Request& r) { return "specified device " + device_kind(r); }, device_kind);
}

std::string title_of(const Request& r) { return roda_collective_of(r.collective)->title; }

// Truth values have no average and no multiples; this is said when the ranks agree on everything else.
bool scales_bool(const Request& r) {
  if (!is(r, RODA_COMBINES) || roda_dtype_is(r.dtype, RODA_SCALES) != 0) return false;
  return r.op == RODA_AVERAGE || r.prescale != 1.0 || r.postscale != 1.0;
}

std::string refused_scaled_bool(const Request& r) {
  const bool scatters = is(r, RODA_SUMS_ONLY);
  return title_of(r) + " of bool tensor '" + r.name +
         "': truth values can be neither averaged nor scaled. Use op=hvd.Sum " +
         (scatters ? "(true where any rank's is)"
                   : "or hvd.Max (true where any rank's is) or hvd.Min (true where every rank's is)") +
         " without prescale and postscale factors, or convert the tensor to a number type.";
}

// Elements that travel and are not combined.
std::string refused_reduction(const Request& r) {
  return title_of(r) + " of " + dtype_name(r) + " tensor '" + r.name + "', op " + roda_reduce_op_name(r.op) + ": " +
         dtype_name(r) +
         " can be gathered, broadcast and exchanged, but not reduced. Convert the tensor to float16, bfloat16 or "
         "float32 and reduce that.";
}

// Why Adasum can't take the tensor; empty: it can.
std::string refused_adasum(const Request& r, int members) {
  if (roda_dtype_is(r.dtype, RODA_FLOAT | RODA_REDUCES) == 0) {
    return "Adasum of tensor '" + r.name + "': Unsupported data type " + dtype_name(r) +
           "; it takes float16, bfloat16, float32 and float64.";
  }
  if ((members & (members - 1)) == 0) return "";
  return "Running Adasum with non-power-of-2 ranks is not supported yet. (tensor '" + r.name + "', " +
         std::to_string(members) + " ranks)";
}

std::string refused_with_join(const Request& r) {
  std::string text = title_of(r) + " is not supported with Join at this time.";
  if (r.collective == RODA_ALLGATHER) text += " Specify sparse_to_dense=True if using DistributedOptimizer";
  return text + " (tensor '" + r.name + "')";
}

std::string check_scalar(const Requests& requests) {
  for (const Request* r : requests) {
    if (r->shape.empty()) {
      return "Process-set rank zero tried to " + op_name(*r) + " a rank-zero tensor. (tensor '" + r->name + "': rank " +
             std::to_string(r->rank) + " gave a scalar, which has no rows; reshape it to [1])";
    }
  }
  return "";
}

// Checks the counts on which the code that puts an alltoall together relies.
std::string check_splits(const Requests& requests, int members) {
  for (const Request* r : requests) {
    std::int64_t sum = 0;
    bool fits = r->splits.size() == static_cast<std::size_t>(members);
    for (const std::int32_t split : r->splits) {
      fits = fits && split >= 0;
      sum += split;
    }
    if (fits && sum <= r->shape[0]) continue;
    return "The splits of an ALLTOALL do not fit its " + std::to_string(members) +
           " members or the rows of its tensor." + who_said(requests, [](const Request& q) {
             return std::to_string(q.splits.size()) + " splits of a tensor of shape " + shape_text(q.shape);
           });
  }
  return "";
}

// The data of all ranks together must be addressable where they are put together.
std::string check_total(const Requests& requests) {
  std::int64_t rows = 0;
  std::int64_t bytes = 0;
  for (const Request* r : requests) {
    const auto row_bytes = r->row_elements() * static_cast<std::int64_t>(roda_dtype_size(r->dtype));
    std::int64_t own = 0;
    const bool fits = !__builtin_mul_overflow(r->shape[0], row_bytes, &own) &&
                      !__builtin_add_overflow(bytes, own, &bytes) && !__builtin_add_overflow(rows, r->shape[0], &rows);
    if (fits) continue;
    return "The " + op_name(*r) + " of all ranks' tensors would be larger than memory can be." +
           who_said(requests, own_shape);
  }
  return "";
}

std::string first_error(const Requests& requests, int members, bool joined) {
  const Request& a = *requests.front();
  const int input = roda_collective_of(a.collective)->input;
  const bool combines = is(a, RODA_COMBINES);
  const bool has_parts = input == RODA_OWN_PART || input == RODA_ALL_PARTS;
  std::string error = mismatch(
      requests, "data types", [](const Request& r) { return r.dtype; },
      [](const Request& r) { return "had type " + dtype_name(r); }, dtype_name);
  if (error.empty()) {
    error = mismatch(
        requests, "operations", [](const Request& r) { return r.collective; },
        [](const Request& r) { return "did an " + op_name(r); }, op_name);
  }
  if (error.empty() && (input == RODA_WHOLE || combines)) error = check_shapes(requests);
  if (error.empty() && combines) error = check_scales(requests);
  if (error.empty() && combines) error = check_reduce_op(requests);
  if (error.empty()) error = check_wire_format(requests);
  if (error.empty() && joined && input != RODA_NOTHING && !is(a, RODA_JOINS)) error = refused_with_join(a);
  if (error.empty() && has_parts) error = check_scalar(requests);
  if (error.empty() && has_parts && !combines) error = check_rows(requests);
  if (error.empty() && has_parts && !combines) error = check_total(requests);
  if (error.empty() && a.collective == RODA_ALLTOALL) error = check_splits(requests, members);
  if (error.empty() && is(a, RODA_ROOTED)) error = check_root(requests);
  if (error.empty()) error = check_device(requests);
  return error;
}

}  // namespace

Status validate(const std::vector<const Request*>& requests, int members, bool joined) {
  std::string error = first_error(requests, members, joined);
  if (!error.empty()) return Status::precondition(std::move(error));
  const Request& agreed = *requests.front();
  if (is(agreed, RODA_COMBINES) && roda_dtype_is(agreed.dtype, RODA_REDUCES) == 0) {
    return Status::invalid(refused_reduction(agreed));
  }
  if (agreed.collective == RODA_ADASUM_ALLREDUCE) {
    if (error = refused_adasum(agreed, members); !error.empty()) return Status::unknown(std::move(error));
  }
  return scales_bool(agreed) ? Status::invalid(refused_scaled_bool(agreed)) : Status();
}

Group common_group(const std::vector<const Request*>& requests) {
  return odd_one(requests, [](const Request& r) { return r.group; }) == nullptr ? requests.front()->group : Group();
}

AgreedPtr agree(const std::vector<const Request*>& requests, const std::vector<int>& position, int members) {
  const Request& a = *requests.front();
  const auto n = static_cast<std::size_t>(members);
  auto agreed = std::make_shared<Agreed>();
  static_cast<Terms&>(*agreed) = a;
  agreed->group = common_group(requests);
  agreed->row_elements = a.row_elements();
  agreed->rows.assign(n, a.shape.empty() ? 1 : a.shape[0]);
  if (a.device >= 0) agreed->devices.assign(n, -1);
  if (a.collective == RODA_ALLTOALL) agreed->splits.resize(n * n);
  const bool own_rows = roda_collective_of(a.collective)->output == RODA_ALL_PARTS;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Request& r = *requests[i];
    const auto member = static_cast<std::size_t>(position[i]);
    if (a.device >= 0) agreed->devices[member] = r.device;
    if (own_rows) agreed->rows[member] = r.shape[0];
    if (a.collective != RODA_ALLTOALL) continue;
    std::copy(r.splits.begin(), r.splits.end(), agreed->splits.begin() + static_cast<std::ptrdiff_t>(member * n));
  }
  agreed->all_rows = std::accumulate(agreed->rows.begin(), agreed->rows.end(), std::int64_t{0});
  return agreed;
}

}  // namespace roda::negotiate
