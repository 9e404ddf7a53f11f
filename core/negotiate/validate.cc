#include "core/negotiate/validate.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <tuple>

namespace roda::negotiate {
namespace {

using Requests = std::vector<const Request*>;

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::ostringstream out;
  out << '[';
  for (std::size_t i = 0; i < shape.size(); ++i) out << (i ? ", " : "") << shape[i];
  out << ']';
  return out.str();
}

bool is(const Request& r, std::uint32_t traits) { return roda_collective_is(r.collective, traits) != 0; }

// "tensor 'x': ranks 0, 2: float32; rank 1: float64" - who said what, so that the odd rank is seen at once.
std::string who_said(const Requests& requests, const std::function<std::string(const Request&)>& value) {
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
template <typename Value>
const Request* odd_one(const Requests& requests, Value value) {
  for (const Request* r : requests) {
    if (value(*r) != value(*requests.front())) return r;
  }
  return nullptr;
}

std::string op_name(const Request& r) { return roda_collective_name(r.collective); }
std::string dtype_name(const Request& r) { return roda_dtype_name(r.dtype); }
std::string device_kind(const Request& r) { return r.device < 0 ? "CPU" : "GPU"; }

std::string check_shapes(const Requests& requests) {
  const Request& a = *requests.front();
  const Request* b = odd_one(requests, [](const Request& r) { return r.shape; });
  if (b == nullptr) return "";
  return "Mismatched " + op_name(a) + " tensor shapes: One rank sent a tensor of shape " + shape_text(a.shape) +
         ", but another rank sent a tensor of shape " + shape_text(b->shape) + "." +
         who_said(requests, [](const Request& r) { return shape_text(r.shape); });
}

std::string check_rows(const Requests& requests) {
  const Request& a = *requests.front();
  if (const Request* b = odd_one(requests, [](const Request& r) { return r.shape.size(); })) {
    return "Mismatched " + op_name(a) + " tensor shapes: One rank sent a tensor of rank " +
           std::to_string(a.shape.size()) + ", but another rank sent a tensor of rank " +
           std::to_string(b->shape.size()) + "." +
           who_said(requests, [](const Request& r) { return shape_text(r.shape); });
  }
  for (std::size_t d = 1; d < a.shape.size(); ++d) {
    const Request* b = odd_one(requests, [d](const Request& r) { return r.shape[d]; });
    if (b == nullptr) continue;
    return "Mismatched " + op_name(a) + " tensor shapes: One rank sent a tensor with dimension " + std::to_string(d) +
           " equal to " + std::to_string(a.shape[d]) + ", but another rank sent a tensor with dimension " +
           std::to_string(d) + " equal to " + std::to_string(b->shape[d]) + "." +
           who_said(requests, [](const Request& r) { return shape_text(r.shape); });
  }
  return "";
}

// An average is a factor too, where sums and averages are all there is. Factors are compared as bits: NaN is itself.
std::string check_scales(const Requests& requests) {
  const Request& a = *requests.front();
  const Request* b = odd_one(requests, [](const Request& r) {
    const int op = is(r, RODA_SUMS_ONLY) ? r.op : 0;
    return std::tuple(std::bit_cast<std::uint64_t>(r.prescale), std::bit_cast<std::uint64_t>(r.postscale), op);
  });
  if (b == nullptr) return "";
  auto text = [](const Request& r) {
    std::ostringstream out;
    out << "prescale " << r.prescale << ", postscale " << r.postscale;
    if (is(r, RODA_SUMS_ONLY)) out << ", op " << roda_reduce_op_name(r.op);
    return out.str();
  };
  return "Mismatched prescale and/or postscale factors: One rank sent factors (" + text(a) +
         "), but another rank sent factors (" + text(*b) + ")." + who_said(requests, text);
}

std::string check_reduce_op(const Requests& requests) {
  const Request& a = *requests.front();
  const Request* b = odd_one(requests, [](const Request& r) { return r.op; });
  if (b == nullptr) return "";
  return "Mismatched reduction operation: One rank requested " + std::to_string(a.op) +
         ", but another rank requested " + std::to_string(b->op) + "." +
         who_said(requests, [](const Request& r) { return std::string(roda_reduce_op_name(r.op)); });
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

// What Adasum is not made for.
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

// Whoever puts an alltoall together relies on these counts.
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

// What all ranks give together must be addressable where it is put together.
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
           who_said(requests, [](const Request& q) { return shape_text(q.shape); });
  }
  return "";
}

std::string check_root(const Requests& requests) {
  const Request& a = *requests.front();
  const Request* b = odd_one(requests, [](const Request& r) { return r.root; });
  if (b == nullptr) return "";
  return "Mismatched " + op_name(a) + " root ranks: One rank specified root rank " + std::to_string(a.root) +
         ", but another rank specified root rank " + std::to_string(b->root) + "." +
         who_said(requests, [](const Request& r) { return "root " + std::to_string(r.root); });
}

std::string check_device(const Requests& requests) {
  const Request& a = *requests.front();
  const Request* b = odd_one(requests, [](const Request& r) { return r.device < 0; });
  if (b == nullptr) return "";
  return "Mismatched " + op_name(a) + " CPU/GPU device selection: One rank specified device " + device_kind(a) +
         ", but another rank specified device " + device_kind(*b) + "." + who_said(requests, device_kind);
}

std::string first_error(const Requests& requests, int members, bool joined) {
  const Request& a = *requests.front();
  const roda_collective_entry& data = *roda_collective_of(a.collective);
  if (const Request* b = odd_one(requests, [](const Request& r) { return r.dtype; })) {
    return "Mismatched data types: One rank had type " + dtype_name(a) + ", but another rank had type " +
           dtype_name(*b) + "." + who_said(requests, dtype_name);
  }
  if (const Request* b = odd_one(requests, [](const Request& r) { return r.collective; })) {
    return "Mismatched operations: One rank did an " + op_name(a) + ", but another rank did an " + op_name(*b) + "." +
           who_said(requests, op_name);
  }
  std::string error;
  const bool has_parts = data.input == RODA_OWN_PART || data.input == RODA_ALL_PARTS;
  if (data.input == RODA_WHOLE || is(a, RODA_COMBINES)) {
    if (error = check_shapes(requests); !error.empty()) return error;
  }
  if (is(a, RODA_COMBINES)) {
    if (error = check_scales(requests); !error.empty()) return error;
    if (error = check_reduce_op(requests); !error.empty()) return error;
  }
  if (joined && data.input != RODA_NOTHING && !is(a, RODA_JOINS)) return refused_with_join(a);
  if (has_parts) {
    if (error = check_scalar(requests); !error.empty()) return error;
  }
  if (has_parts && !is(a, RODA_COMBINES)) {
    if (error = check_rows(requests); !error.empty()) return error;
    if (error = check_total(requests); !error.empty()) return error;
  }
  if (a.collective == RODA_ALLTOALL) {
    if (error = check_splits(requests, members); !error.empty()) return error;
  }
  if (is(a, RODA_ROOTED)) {
    if (error = check_root(requests); !error.empty()) return error;
  }
  return check_device(requests);
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
  auto agreed = std::make_shared<Agreed>();
  agreed->set = a.set;
  agreed->collective = a.collective;
  agreed->dtype = a.dtype;
  agreed->op = a.op;
  agreed->root = a.root;
  if (a.device >= 0) {
    agreed->devices.assign(static_cast<std::size_t>(members), -1);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      agreed->devices[static_cast<std::size_t>(position[i])] = requests[i]->device;
    }
  }
  agreed->prescale = a.prescale;
  agreed->postscale = a.postscale;
  agreed->name = a.name;
  agreed->shape = a.shape;
  agreed->row_elements = a.row_elements();
  agreed->group = common_group(requests);
  const std::int64_t common = a.shape.empty() ? 1 : a.shape[0];
  agreed->rows.assign(static_cast<std::size_t>(members), common);
  const bool own_rows = roda_collective_of(a.collective)->output == RODA_ALL_PARTS;
  if (own_rows) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      agreed->rows[static_cast<std::size_t>(position[i])] = requests[i]->shape[0];
    }
  }
  agreed->all_rows = std::accumulate(agreed->rows.begin(), agreed->rows.end(), std::int64_t{0});
  if (a.collective == RODA_ALLTOALL) {
    const auto n = static_cast<std::size_t>(members);
    agreed->splits.resize(n * n);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      std::copy(requests[i]->splits.begin(), requests[i]->splits.end(),
                agreed->splits.begin() + static_cast<std::ptrdiff_t>(position[i]) * members);
    }
  }
  return agreed;
}

}  // namespace roda::negotiate
