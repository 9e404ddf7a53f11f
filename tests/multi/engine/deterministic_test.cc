// RODA_DETERMINISTIC: what every rank gets is the sum from rank 0 to the last, element by element, bit for bit,
// whatever carries it. Every rank can make up every other rank's data, so each compares with that sum itself.
#include <cstring>
#include <random>

#include "tests/multi/engine/rank.h"
#include "tests/unit/devices/values.h"

namespace roda::test {
namespace {

using Bytes = std::vector<unsigned char>;
using Shape = std::vector<std::int64_t>;

constexpr int kReal[] = {RODA_FLOAT16, RODA_BFLOAT16, RODA_FLOAT32, RODA_FLOAT64};

Bytes cast(const std::vector<double>& values, int dtype) {
  const std::size_t width = roda_dtype_size(dtype);
  Bytes bytes(values.size() * width);
  for (std::size_t i = 0; i < values.size(); ++i) cpu::store(dtype, bytes.data() + i * width, values[i]);
  return bytes;
}

// Of widely different sizes, so that another order gives other bits. One random number each: every rank makes up every
// rank's data.
Bytes random_data(int of_rank, std::size_t count, int dtype, unsigned seed) {
  std::mt19937 random(seed * 1000 + static_cast<unsigned>(of_rank));
  std::vector<double> values(count);
  for (double& v : values) {
    const auto bits = static_cast<std::uint32_t>(random());
    const auto fraction = static_cast<double>(static_cast<std::int32_t>(bits << 8)) / 0x1p31;
    v = fraction * static_cast<double>(1u << (bits >> 28)) / 128;
  }
  return cast(values, dtype);
}

template <typename T>
void fold(Bytes* total, const Bytes& next, int op) {
  T* a = reinterpret_cast<T*>(total->data());
  const T* b = reinterpret_cast<const T*>(next.data());
  for (std::size_t i = 0; i < total->size() / sizeof(T); ++i) a[i] = op == RODA_PRODUCT ? a[i] * b[i] : a[i] + b[i];
}

std::vector<double> widened(const Bytes& bytes, int dtype) {
  const std::size_t width = roda_dtype_size(dtype);
  std::vector<double> values(bytes.size() / width);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = cpu::load(dtype, bytes.data() + i * width);
  return values;
}

// From rank 0 on; 16-bit floats in float, rounded at the end.
Bytes in_rank_order(std::size_t count, int dtype, int op, unsigned seed) {
  const bool is_half = dtype == RODA_FLOAT16 || dtype == RODA_BFLOAT16;
  const int work = is_half ? int{RODA_FLOAT32} : dtype;
  Bytes total;
  for (int r = 0; r < size(); ++r) {
    Bytes next = random_data(r, count, dtype, seed);
    if (is_half) next = cast(widened(next, dtype), work);
    if (r == 0) {
      total = next;
    } else if (work == RODA_FLOAT32) {
      fold<float>(&total, next, op);
    } else {
      fold<double>(&total, next, op);
    }
  }
  return is_half ? cast(widened(total, work), dtype) : total;
}

TEST(Deterministic, AllreducesOfEverySizeAloneAndTogether) {
  unsigned seed = 0;
  for (const int dtype : kReal) {
    for (const int op : {RODA_SUM, RODA_PRODUCT}) {
      const std::size_t counts[] = {1, 5, 100, 1000, 9000, 70000, 300000};
      for (const bool together : {false, true}) {
        std::vector<Bytes> data;
        std::vector<std::string> names;
        std::vector<Shape> shapes;
        for (const std::size_t count : counts) {
          data.push_back(random_data(rank(), count, dtype, ++seed));
          names.push_back("sum" + std::to_string(count));
          shapes.push_back({static_cast<std::int64_t>(count)});
        }
        std::vector<roda_op> ops;
        for (std::size_t i = 0; i < data.size(); ++i) {
          ops.push_back(make_op(RODA_ALLREDUCE, names[i], shapes[i], data[i].data(), data[i].data(), dtype));
          ops.back().op = op;
          if (!together) {
            const Outcome o = run(ops.back());
            ASSERT_EQ(o.code, RODA_OK) << o.message;
          }
        }
        if (together) {
          roda_handle handle = 0;
          ASSERT_EQ(submit(ops, &handle).code, RODA_OK);
          const Outcome o = wait(handle);
          ASSERT_EQ(o.code, RODA_OK) << o.message;
        }
        for (std::size_t i = 0; i < data.size(); ++i) {
          const auto own = seed - static_cast<unsigned>(std::size(counts)) + 1 + static_cast<unsigned>(i);
          ASSERT_EQ(data[i], in_rank_order(counts[i], dtype, op, own))
              << roda_dtype_name(dtype) << " " << counts[i] << (together ? " together" : " alone");
        }
      }
    }
  }
}

// The root may be any rank, and its output its input.
TEST(Deterministic, ReducesToARootAreTheSame) {
  unsigned seed = 700;
  for (const int dtype : kReal) {
    for (int root = 0; root < size(); ++root) {
      const std::size_t count = root % 2 == 0 ? 70001 : 13;
      Bytes data = random_data(rank(), count, dtype, ++seed);
      const Shape shape{static_cast<std::int64_t>(count)};
      roda_op op = make_op(RODA_REDUCE, "to a root", shape, data.data(), data.data(), dtype);
      op.root = root;
      const Outcome o = run(op);
      ASSERT_EQ(o.code, RODA_OK) << o.message;
      const Bytes wanted =
          rank() == root ? in_rank_order(count, dtype, RODA_SUM, seed) : random_data(rank(), count, dtype, seed);
      ASSERT_EQ(data, wanted) << roda_dtype_name(dtype) << " to " << root;
    }
  }
}

TEST(Deterministic, ReducescattersAreSlicesOfTheSame) {
  unsigned seed = 500;
  for (const int dtype : kReal) {
    for (const std::size_t rows : {1u, 7u, 1000u, 90000u}) {
      const Bytes in = random_data(rank(), rows, dtype, ++seed);
      const Shape shape{static_cast<std::int64_t>(rows)};
      const std::string name = "slices" + std::to_string(rows);
      roda_handle handle = 0;
      ASSERT_EQ(submit({make_op(RODA_REDUCESCATTER, name, shape, in.data(), nullptr, dtype)}, &handle).code, RODA_OK);
      roda_error error{};
      ASSERT_EQ(roda_wait(handle, &error), RODA_OK);
      roda_output output{};
      output.struct_size = sizeof output;
      ASSERT_EQ(roda_get_output(handle, 0, &output, &error), RODA_OK);
      const Bytes all = in_rank_order(rows, dtype, RODA_SUM, seed);
      std::size_t begin = 0;
      const auto n = static_cast<std::size_t>(size()), me = static_cast<std::size_t>(rank());
      for (std::size_t r = 0; r < me; ++r) begin += rows / n + (r < rows % n ? 1 : 0);
      const std::size_t own = rows / n + (me < rows % n ? 1 : 0);
      const std::size_t element = roda_dtype_size(dtype);
      EXPECT_EQ(output.shape[0], static_cast<std::int64_t>(own));
      EXPECT_EQ(std::memcmp(output.data, all.data() + begin * element, own * element), 0) << roda_dtype_name(dtype);
      roda_release(handle);
      roda_output_release(output.owner);
    }
  }
}

// Adasum is not in rank order, but the same in a bucket and alone.
TEST(Deterministic, AdasumIsTheSameInAGroup) {
  if ((size() & (size() - 1)) != 0) GTEST_SKIP() << "needs a power of two of ranks";
  const Shape shape{777}, other{100};
  const Bytes in = random_data(rank(), 777, RODA_FLOAT32, 900);
  Bytes alone = in, grouped = in;
  std::vector<float> beside(100, 1);
  roda_op op = make_op(RODA_ALLREDUCE, "alone", shape, alone.data(), alone.data());
  op.op = RODA_ADASUM;
  ASSERT_EQ(run(op).code, RODA_OK);
  std::vector<roda_op> ops{make_op(RODA_ALLREDUCE, "beside", other, beside.data(), beside.data()),
                           make_op(RODA_ALLREDUCE, "grouped", shape, grouped.data(), grouped.data())};
  for (roda_op& member : ops) member.op = RODA_ADASUM;
  roda_handle handle = 0;
  ASSERT_EQ(submit(ops, &handle).code, RODA_OK);
  ASSERT_EQ(wait(handle).code, RODA_OK);
  EXPECT_EQ(alone, grouped);
}

}  // namespace
}  // namespace roda::test
