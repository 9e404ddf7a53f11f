// Native collectives against the naive reference.
#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <numeric>

#include "plugins/conformance/kit.h"

namespace roda::conformance {
namespace {

// Kept so small that sums and products over 16 ranks fit an int8 and are exact in a bfloat16.
int value_of(int rank, std::size_t index, int dtype, int op) {
  const auto mixed = static_cast<unsigned>(index * 7 + static_cast<unsigned>(rank) * 3 + index / 5);
  if (dtype == RODA_BOOL) return mixed % 3 == 0 ? 0 : 1;
  if (op == RODA_PRODUCT) return mixed % 5 == 0 && rank < 4 ? 2 : 1;
  return static_cast<int>(mixed % 5) + 1;  // never zero: a sum that moved nothing must not look right
}

struct Floats {
  int dtype, mantissa, bias;
};
constexpr Floats kFloats[] = {{RODA_FLOAT16, 10, 15},    {RODA_BFLOAT16, 7, 127}, {RODA_FLOAT8_E4M3FN, 3, 7},
                              {RODA_FLOAT8_E5M2, 2, 15}, {RODA_FLOAT32, 23, 127}, {RODA_FLOAT64, 52, 1023}};

// The bits of a whole number in the dtype. The number is not negative, and has at most one bit more than the mantissa.
std::uint64_t bits_of(int value, int dtype) {
  const auto bits = static_cast<std::uint64_t>(value);
  const auto* format = std::ranges::find(kFloats, dtype, &Floats::dtype);
  if (value == 0 || format == std::end(kFloats)) return bits;
  const int exponent = std::bit_width(bits) - 1;
  const std::uint64_t mantissa = bits << (format->mantissa - exponent) & ((std::uint64_t{1} << format->mantissa) - 1);
  return static_cast<std::uint64_t>(exponent + format->bias) << format->mantissa | mantissa;
}

int combine(int a, int b, int dtype, int op) {
  if (dtype == RODA_BOOL) return op == RODA_SUM || op == RODA_MAX ? (a | b) : (a & b);
  switch (op) {
    case RODA_MIN:
      return std::min(a, b);
    case RODA_MAX:
      return std::max(a, b);
    case RODA_PRODUCT:
      return a * b;
    default:
      return a + b;
  }
}

// `count` elements; element i is `value(i)`.
template <typename Value>
std::vector<char> elements(int dtype, std::size_t count, Value&& value) {
  static_assert(std::endian::native == std::endian::little);
  const std::size_t width = roda_dtype_size(dtype);
  std::vector<char> data(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = bits_of(value(i), dtype);
    std::memcpy(&data[i * width], &bits, width);
  }
  return data;
}

// Test data: small whole numbers, exact in every dtype.
std::vector<char> make_elements(int dtype, std::size_t count, int rank, int op) {
  return elements(dtype, count, [&](std::size_t i) { return value_of(rank, i, dtype, op); });
}

// The reduction over all ranks of what make_elements gives them.
std::vector<char> reduced_elements(int dtype, std::size_t count, int ranks, int op, std::size_t first = 0) {
  return elements(dtype, count, [&](std::size_t i) {
    int value = value_of(0, first + i, dtype, op);
    for (int rank = 1; rank < ranks; ++rank) value = combine(value, value_of(rank, first + i, dtype, op), dtype, op);
    return value;
  });
}

bool supports(Env& env, int collective, int dtype, int op = RODA_SUM) {
  return env.table().collective_supported(env.context(), collective, dtype, op, env.placement().memory_kind()) != 0;
}

void skip_unless(Env& env, int collective) {
  if (!supports(env, collective, RODA_FLOAT32))
    throw CaseSkipped(std::string("no native ") + roda_collective_name(collective));
}

// `body(group, dtype, op)` in a group of all ranks for all that the transport supports, of sums alone or of every op.
template <typename Body>
void for_each_supported(Env& env, int collective, bool sums_alone, Body&& body) {
  skip_unless(env, collective);
  Group group(env, roda_collective_name(collective));
  for (int dtype = 0; dtype < RODA_DTYPE_COUNT; ++dtype) {
    for (const int op : {RODA_SUM, RODA_MIN, RODA_MAX, RODA_PRODUCT}) {
      if ((op == RODA_SUM || !sums_alone) && supports(env, collective, dtype, op)) body(group, dtype, op);
    }
  }
  env.barrier();
}

void check_equal(const std::vector<char>& got, const std::vector<char>& expected, int dtype, const char* what,
                 std::size_t count) {
  const auto at = std::mismatch(got.begin(), got.end(), expected.begin(), expected.end()).first - got.begin();
  CHECK(got == expected, "%s of %zu %s: element %zu is wrong", what, count, roda_dtype_name(dtype),
        static_cast<std::size_t>(at) / roda_dtype_size(dtype));
}

// What a rank has before and after a collective. Where it has no result no output is given.
struct Data {
  std::vector<char> input, expected;
  bool in_place = false;
  bool has_result = true;
};

// The rest of the arguments is the caller's. An input apart from the output stays as it is.
void run(Env& env, Group& group, roda_collective_args args, const Data& data) {
  Buffer input(env.placement(), data.input);
  Buffer output(env.placement(), data.in_place ? data.input : std::vector<char>(data.expected.size(), 'x'));
  args.input = data.in_place ? output.data() : input.data();
  args.output = data.has_result ? output.data() : nullptr;
  group.wait(group.start(args));
  const std::size_t count = data.input.size() / roda_dtype_size(args.dtype);
  const std::string what = std::string(roda_collective_name(args.collective)) + " by " + roda_reduce_op_name(args.op) +
                           (data.in_place ? " in place" : "");
  if (data.has_result) check_equal(output.read(), data.expected, args.dtype, what.c_str(), count);
  check_equal(input.read(), data.input, args.dtype, ("the input of " + what).c_str(), count);
}

void allreduce_one(Env& env, Group& group, int dtype, int op, std::size_t count) {
  for (const bool in_place : {true, false}) {
    roda_collective_args args = arguments(env, RODA_ALLREDUCE, dtype, op);
    args.count = count;
    run(env, group, args,
        {make_elements(dtype, count, group.rank(), op), reduced_elements(dtype, count, group.size(), op), in_place});
  }
}

void allreduce(Env& env) {
  for_each_supported(env, RODA_ALLREDUCE, false, [&](Group& group, int dtype, int op) {
    for (const std::size_t count : {0, 1, 3, 1000}) allreduce_one(env, group, dtype, op, count);
  });
  Group group(env, "long allreduce");
  for (const std::size_t count : {17u, 64u, 257u, 4097u, 30011u, 65537u, 1000003u}) {
    allreduce_one(env, group, RODA_FLOAT32, RODA_SUM, count);
  }
  env.barrier();
}

// `body(args, is_root, in_place)` for every root and some counts.
template <typename Body>
void for_each_root(Env& env, const Group& group, int collective, int dtype, int op, Body&& body) {
  for (int root = 0; root < group.size(); ++root) {
    for (const std::size_t count : {0u, 1u, 777u, 100003u}) {
      roda_collective_args args = arguments(env, collective, dtype, op);
      args.count = count;
      args.root = root;
      body(args, root == group.rank(), count % 2 == 0);
    }
  }
}

void broadcast(Env& env) {
  for_each_supported(env, RODA_BROADCAST, true, [&](Group& group, int dtype, int op) {
    for_each_root(env, group, RODA_BROADCAST, dtype, op, [&](auto& args, bool is_root, bool in_place) {
      const std::vector<char> data = make_elements(dtype, args.count, args.root, op);
      run(env, group, args, {is_root ? data : std::vector<char>(data.size(), 'x'), data, !is_root || in_place});
    });
  });
}

// Off the root no output is given, and every input stays as it is.
void reduce(Env& env) {
  for_each_supported(env, RODA_REDUCE, false, [&](Group& group, int dtype, int op) {
    for_each_root(env, group, RODA_REDUCE, dtype, op, [&](auto& args, bool is_root, bool in_place) {
      run(env, group, args,
          {make_elements(dtype, args.count, group.rank(), op), reduced_elements(dtype, args.count, group.size(), op),
           is_root && in_place, is_root});
    });
  });
}

// Uneven shares, with zeros among them; `shape` picks one of several patterns.
std::vector<std::size_t> shares(int ranks, int shape) {
  std::vector<std::size_t> counts;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    const std::size_t patterns[] = {100, 17 * r, rank == ranks - 1 ? 0u : 1000u, rank == 0 ? 40000u : 0u, 0, 30011};
    counts.push_back(patterns[shape]);
  }
  return counts;
}
constexpr int kShapes = 6;

void append(std::vector<char>* all, const std::vector<char>& part) {
  all->insert(all->end(), part.begin(), part.end());
}

void allgather(Env& env) {
  for_each_supported(env, RODA_ALLGATHER, true, [&](Group& group, int dtype, int op) {
    for (int shape = 0; shape < kShapes; ++shape) {
      const std::vector<std::size_t> counts = shares(group.size(), shape);
      std::vector<char> own, expected;
      for (int rank = 0; rank < group.size(); ++rank) {
        const std::vector<char> part = make_elements(dtype, counts[static_cast<std::size_t>(rank)], rank, op);
        append(&expected, part);
        if (rank == group.rank()) own = part;
      }
      roda_collective_args args = arguments(env, RODA_ALLGATHER, dtype);
      args.recv_counts = counts.data();
      run(env, group, args, {own, expected});
    }
  });
}

void alltoall(Env& env) {
  for_each_supported(env, RODA_ALLTOALL, true, [&](Group& group, int dtype, int op) {
    const auto ranks = static_cast<std::size_t>(group.size()), own = static_cast<std::size_t>(group.rank());
    for (int shape = 0; shape < kShapes; ++shape) {
      // Rank a sends (share of a + share of b, rotated) elements to rank b.
      const std::vector<std::size_t> share = shares(group.size(), shape);
      const auto count = [&](std::size_t from, std::size_t to) { return share[(from + 2 * to) % ranks]; };
      std::vector<std::size_t> send_counts(ranks), recv_counts(ranks);
      Data data;
      for (std::size_t peer = 0; peer < ranks; ++peer) {
        send_counts[peer] = count(own, peer);
        recv_counts[peer] = count(peer, own);
        const int ours = static_cast<int>(own * ranks + peer), theirs = static_cast<int>(peer * ranks + own);
        append(&data.input, make_elements(dtype, send_counts[peer], ours, op));
        append(&data.expected, make_elements(dtype, recv_counts[peer], theirs, op));
      }
      roda_collective_args args = arguments(env, RODA_ALLTOALL, dtype);
      args.send_counts = send_counts.data();
      args.recv_counts = recv_counts.data();
      const bool is_even = std::ranges::all_of(share, [&](std::size_t each) { return each == share[0]; });
      args.count = is_even ? share[0] : 0;
      run(env, group, args, data);
    }
  });
}

void reduce_scatter(Env& env) {
  for_each_supported(env, RODA_REDUCESCATTER, false, [&](Group& group, int dtype, int op) {
    for (int shape = 0; shape < kShapes; ++shape) {
      const std::vector<std::size_t> counts = shares(group.size(), shape);
      const std::size_t first = std::accumulate(counts.begin(), counts.begin() + group.rank(), std::size_t{0});
      const std::size_t own = counts[static_cast<std::size_t>(group.rank())];
      roda_collective_args args = arguments(env, RODA_REDUCESCATTER, dtype, op);
      args.count = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
      args.recv_counts = counts.data();
      run(env, group, args,
          {make_elements(dtype, args.count, group.rank(), op), reduced_elements(dtype, own, group.size(), op, first)});
    }
  });
}

// No rank leaves before every rank has come.
void barrier(Env& env) {
  skip_unless(env, RODA_BARRIER);
  Group group(env, "barrier");
  for (std::uint32_t round = 1; round <= 50; ++round) {
    env.world().note(env.rank()).store(round);
    group.wait(group.start(arguments(env, RODA_BARRIER, RODA_UINT8)));
    for (int rank = 0; rank < env.size(); ++rank) {
      const std::uint32_t theirs = env.world().note(rank).load();
      CHECK(theirs >= round, "left barrier %u while rank %d was at %u", round, rank, theirs);
    }
  }
  env.barrier();
}

void in_flight(Env& env) {
  skip_unless(env, RODA_ALLREDUCE);
  constexpr std::size_t kTensors = 8;
  Group group(env, "in_flight"), other(env, "in_flight_too");
  std::vector<Buffer> data;
  std::vector<roda_request*> requests, other_requests;
  const auto count = [](std::size_t i) { return 1 + i * i * 3000; };
  for (std::size_t i = 0; i < kTensors; ++i) {
    data.emplace_back(env.placement(), make_elements(RODA_INT32, count(i), env.rank(), RODA_SUM));
    roda_collective_args args = arguments(env, RODA_ALLREDUCE, RODA_INT32);
    args.input = args.output = data[i].data();
    args.count = count(i);
    (i % 2 == 0 ? requests : other_requests).push_back((i % 2 == 0 ? group : other).start(args));
  }
  other.wait(other_requests);
  group.wait(requests);
  for (std::size_t i = 0; i < kTensors; ++i) {
    check_equal(data[i].read(), reduced_elements(RODA_INT32, count(i), env.size(), RODA_SUM), RODA_INT32,
                "allreduce in flight", count(i));
  }
  env.barrier();
}

// A collective and messages on one group do not get in each other's way.
void beside_messages(Env& env) {
  skip_unless(env, RODA_ALLREDUCE);
  Group group(env, "beside");
  const int right = group.right(), left = group.left();
  for (std::uint64_t round = 0; round < 20; ++round) {
    std::vector<char> data = make_elements(RODA_FLOAT32, 50000, group.rank(), RODA_SUM), in(100000);
    const std::vector<char> out = pattern(in.size(), group.rank(), right, round);
    roda_collective_args args = arguments(env, RODA_ALLREDUCE, RODA_FLOAT32);
    args.input = args.output = data.data();
    args.count = 50000;
    roda_request* received = group.receive(left, round, in.data(), in.size());
    roda_request* reduced = group.start(args);
    group.wait({group.send(right, round, out.data(), out.size()), reduced, received});
    check_equal(data, reduced_elements(RODA_FLOAT32, 50000, group.size(), RODA_SUM), RODA_FLOAT32, "allreduce", 50000);
    CHECK(in == pattern(in.size(), left, group.rank(), round), "a message beside an allreduce is wrong");
  }
  env.barrier();
}

}  // namespace

const std::vector<Case> kNativeCases = {
    {"native.allreduce", "dtypes x ops x sizes, in place and not", RODA_CAP_NATIVE, 1, allreduce},
    {"native.broadcast", "dtypes x roots x sizes", RODA_CAP_NATIVE, 1, broadcast},
    {"native.reduce", "dtypes x ops x roots x sizes", RODA_CAP_NATIVE, 1, reduce},
    {"native.allgather", "even, uneven and empty shares", RODA_CAP_NATIVE, 1, allgather},
    {"native.alltoall", "even, uneven and empty shares", RODA_CAP_NATIVE, 1, alltoall},
    {"native.reduce_scatter", "even, uneven and empty shares", RODA_CAP_NATIVE, 1, reduce_scatter},
    {"native.barrier", "nobody leaves before all have come", RODA_CAP_NATIVE, 1, barrier},
    {"native.in_flight", "eight allreduces on two groups at once", RODA_CAP_NATIVE, 2, in_flight},
    {"native.beside_messages", "collectives and messages on one group", RODA_CAP_NATIVE | RODA_CAP_P2P, 2,
     beside_messages},
};

}  // namespace roda::conformance
