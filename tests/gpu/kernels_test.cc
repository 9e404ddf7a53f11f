// The kernels against references in long double, with fresh random inputs. Runs on a GPU (tests/gpu/run.sh), and over
// the double of the driver, where the host's own kernels stand in: that proves these tests, not the kernels.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "plugins/devices/cuda/cuda_device.h"
#include "tests/gpu/reference.h"

namespace roda::gpu_test {
namespace {

constexpr int kOps[] = {RODA_SUM, RODA_MIN, RODA_MAX, RODA_PRODUCT};
constexpr std::size_t kCounts[] = {1, 15, 4096, 100003};

const char* knob(void*, const char* name) { return ::getenv(name); }

class Kernels : public testing::Test {
 protected:
  void SetUp() override {
    roda_host host{};
    host.struct_size = sizeof host;
    host.knob = knob;
    error_.struct_size = sizeof error_;
    ASSERT_EQ(device_.probe(&host, &error_), RODA_OK) << error_.message;
    roda_memory memory{};
    ASSERT_EQ(device_.alloc(0, 1, &memory, &error_), RODA_OK) << error_.message;
    device_.free(&memory);
    const auto seed = std::random_device{}();
    RecordProperty("seed", std::to_string(seed));
    std::printf("seed %u\n", seed);
    random_.seed(seed);
  }
  void TearDown() override {
    for (roda_memory& memory : memory_) device_.free(&memory);
  }

  // Memory on the device that begins `shift` bytes behind an aligned address.
  char* place(const std::vector<char>& data, std::size_t shift = 0) {
    memory_.emplace_back();
    EXPECT_EQ(device_.alloc(0, data.size() + shift, &memory_.back(), &error_), RODA_OK) << error_.message;
    char* address = static_cast<char*>(memory_.back().address) + shift;
    if (!data.empty()) {
      EXPECT_EQ(device_.copy(address, data.data(), data.size(), nullptr, &error_), RODA_OK) << error_.message;
    }
    return address;
  }
  std::vector<char> read(const char* address, std::size_t bytes) {
    std::vector<char> data(bytes);
    if (bytes > 0) {
      EXPECT_EQ(device_.copy(data.data(), address, bytes, nullptr, &error_), RODA_OK) << error_.message;
    }
    return data;
  }
  void drop() {
    for (roda_memory& memory : memory_) device_.free(&memory);
    memory_.clear();
  }
  void expect_equal(int dtype, const std::vector<char>& got, const std::vector<char>& expected,
                    const std::string& what) {
    const std::ptrdiff_t at = first_difference(dtype, got, expected);
    if (at < 0) return;
    const std::size_t offset = static_cast<std::size_t>(at) * roda_dtype_size(dtype);
    ADD_FAILURE() << what << ": element " << at << " is " << static_cast<double>(load(dtype, &got[offset]))
                  << " instead of " << static_cast<double>(load(dtype, &expected[offset]));
  }

  const roda_device& device_ = *roda_cuda_device();
  roda_error error_{};
  std::vector<roda_memory> memory_;
  std::mt19937_64 random_;
};

TEST_F(Kernels, Reduce) {
  for (int dtype = 0; dtype < RODA_DTYPE_COUNT; ++dtype) {
    if (roda_dtype_is(dtype, RODA_REDUCES) == 0) continue;
    const std::size_t width = roda_dtype_size(dtype);
    for (const int op : kOps) {
      for (const std::size_t count : kCounts) {
        const std::size_t shift = count % 2 == 0 ? 0 : width;
        const std::vector<char> a = random_elements(dtype, count, random_), b = random_elements(dtype, count, random_);
        std::vector<char> expected(a.size());
        for (std::size_t i = 0; i < a.size(); i += width) reduce_one(dtype, op, &expected[i], &a[i], &b[i]);
        char *left = place(a, shift), *right = place(b);
        ASSERT_EQ(device_.reduce(left, left, right, count, dtype, op, nullptr, &error_), RODA_OK) << error_.message;
        expect_equal(dtype, read(left, a.size()), expected,
                     std::string(roda_dtype_name(dtype)) + " by " + roda_reduce_op_name(op));
        drop();
      }
    }
  }
}

TEST_F(Kernels, Scale) {
  for (int dtype = 0; dtype < RODA_DTYPE_COUNT; ++dtype) {
    if (roda_dtype_is(dtype, RODA_REDUCES) == 0) continue;
    for (const double factor : {0.25, -3.0, 1.0 / 3.0, 1e10}) {
      const std::size_t count = 10007, width = roda_dtype_size(dtype);
      const std::vector<char> data = random_elements(dtype, count, random_);
      std::vector<char> expected(data.size());
      for (std::size_t i = 0; i < data.size(); i += width) scale_one(dtype, &expected[i], &data[i], factor);
      char* on_device = place(data);
      ASSERT_EQ(device_.scale(on_device, count, dtype, factor, nullptr, &error_), RODA_OK) << error_.message;
      expect_equal(dtype, read(on_device, data.size()), expected,
                   std::string(roda_dtype_name(dtype)) + " times " + std::to_string(factor));
      drop();
    }
  }
}

// Every pair of alignments of tensor and buffer, lengths around what a thread and a block take.
TEST_F(Kernels, PackEveryAlignment) {
  const std::vector<char> source = random_elements(RODA_UINT8, 5u << 20, random_);
  char* tensors = place(source);
  std::vector<roda_pack_item> items;
  std::vector<char> expected;
  std::size_t at = 0;
  for (std::size_t tensor_skew = 0; tensor_skew < 16; ++tensor_skew) {
    for (std::size_t buffer_skew = 0; buffer_skew < 16; ++buffer_skew) {
      const std::size_t lengths[] = {random_() % 64, 4096 + random_() % 64, random_() % 32 == 0 ? 70000u : 1u};
      for (const std::size_t bytes : lengths) {
        at = (at + 15) / 16 * 16 + tensor_skew;
        expected.resize((expected.size() + 15) / 16 * 16 + buffer_skew, 'x');
        items.push_back({tensors + at, expected.size(), bytes});
        expected.insert(expected.end(), source.begin() + static_cast<std::ptrdiff_t>(at),
                        source.begin() + static_cast<std::ptrdiff_t>(at + bytes));
        at += bytes;
      }
    }
  }
  ASSERT_LT(at, source.size());
  char* buffer = place(std::vector<char>(expected.size(), 'x'));
  ASSERT_EQ(device_.pack(buffer, items.data(), items.size(), nullptr, &error_), RODA_OK) << error_.message;
  EXPECT_EQ(read(buffer, expected.size()), expected);
  char* again = place(std::vector<char>(source.size(), 'y'));
  std::vector<char> unpacked(source.size(), 'y');
  for (roda_pack_item& item : items) {
    const auto offset = static_cast<std::size_t>(static_cast<char*>(item.tensor) - tensors);
    std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(offset), item.bytes,
                unpacked.begin() + static_cast<std::ptrdiff_t>(offset));
    item.tensor = again + offset;
  }
  ASSERT_EQ(device_.unpack(buffer, items.data(), items.size(), nullptr, &error_), RODA_OK) << error_.message;
  EXPECT_EQ(read(again, source.size()), unpacked);
}

TEST_F(Kernels, PackAndUnpackScale) {
  for (int dtype = 0; dtype < RODA_DTYPE_COUNT; ++dtype) {
    if (roda_dtype_is(dtype, RODA_REDUCES) == 0) continue;
    const std::size_t width = roda_dtype_size(dtype);
    for (const double factor : {0.125, 1.0 / 3.0}) {
      std::vector<roda_pack_item> items;
      std::vector<char> expected, source = random_elements(dtype, 60000, random_), back(source.size());
      char* tensors = place(source);
      std::size_t first = 0;
      while (first + 9000 < 60000) {
        const std::size_t count = random_() % 9000;
        items.push_back({tensors + first * width, expected.size(), count * width});
        for (std::size_t i = first * width; i < (first + count) * width; i += width) {
          expected.resize(expected.size() + width);
          char* packed = &expected[expected.size() - width];
          scale_one(dtype, packed, &source[i], factor);
          scale_one(dtype, &back[i], packed, factor);
        }
        first += count;
      }
      back.resize(first * width);
      char* buffer = place(std::vector<char>(expected.size()));
      const std::string what = std::string(roda_dtype_name(dtype)) + " packed times " + std::to_string(factor);
      ASSERT_EQ(device_.pack_scaled(buffer, items.data(), items.size(), dtype, factor, nullptr, &error_), RODA_OK)
          << error_.message;
      expect_equal(dtype, read(buffer, expected.size()), expected, what);
      ASSERT_EQ(device_.unpack_scaled(buffer, items.data(), items.size(), dtype, factor, nullptr, &error_), RODA_OK)
          << error_.message;
      expect_equal(dtype, read(tensors, back.size()), back, what + " and back");
      drop();
    }
  }
}

// Three ranks have something, and as many more zeros as make up the members: sums of 8 and 16 bits are of 32 or 64.
TEST_F(Kernels, AveragesOfWholeNumbers) {
  for (int dtype = 0; dtype < RODA_DTYPE_COUNT; ++dtype) {
    if (roda_dtype_is(dtype, RODA_INTEGER) == 0) continue;
    for (const int members : {3, 7, 40'000}) {
      const std::size_t count = 10'007, width = roda_dtype_size(dtype), bytes = count * width;
      const bool is_in_64 = width >= 4 || members > 1 << 15;
      const std::size_t numbers = width == 8 ? 2 * count : count;
      const int sum_dtype = is_in_64 ? RODA_INT64 : RODA_INT32;
      char* total = place(std::vector<char>(numbers * roda_dtype_size(sum_dtype)));
      char* own = place(std::vector<char>(numbers * roda_dtype_size(sum_dtype)));
      char* averages = place(std::vector<char>(bytes));
      std::vector<std::vector<char>> ranks;
      for (int rank = 0; rank < 3; ++rank) {
        ranks.push_back(random_elements(dtype, count, random_));
        char* values = place(ranks.back());
        ASSERT_EQ(device_.widen(own, values, count, dtype, members, nullptr, &error_), RODA_OK) << error_.message;
        ASSERT_EQ(device_.reduce(total, total, own, numbers, sum_dtype, RODA_SUM, nullptr, &error_), RODA_OK);
      }
      ASSERT_EQ(device_.average(averages, total, count, dtype, members, 1.0, nullptr, &error_), RODA_OK);
      const std::vector<char> got = read(averages, bytes);
      for (std::size_t i = 0; i < bytes; i += width) {
        __extension__ __int128 sum = 0;
        for (const std::vector<char>& values : ranks) sum += static_cast<long long>(load(dtype, &values[i]));
        ASSERT_EQ(static_cast<long long>(load(dtype, &got[i])), static_cast<long long>(sum / members))
            << roda_dtype_name(dtype) << " over " << members;
      }
      drop();
    }
  }
}

}  // namespace
}  // namespace roda::gpu_test
