#include "plugins/base/copy.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "plugins/devices/cpu/cpu_device.h"

namespace roda::cpu {
namespace {

std::vector<unsigned char> pattern(std::size_t bytes) {
  std::vector<unsigned char> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<unsigned char>(i * 7 + i / 251);
  return data;
}

TEST(Copy, StreamingIsExactForAllOffsetsAndSizes) {
  auto source = pattern(1024);
  for (std::size_t to = 0; to < 64; to += 5) {
    for (std::size_t from = 0; from < 16; from += 3) {
      for (std::size_t bytes : {0, 1, 15, 63, 64, 65, 127, 128, 129, 500}) {
        std::vector<unsigned char> target(1024, 0xee);
        copy_streaming(target.data() + to, source.data() + from, bytes);
        for (std::size_t i = 0; i < target.size(); ++i) {
          ASSERT_EQ(target[i], i >= to && i < to + bytes ? source[from + i - to] : 0xee) << to << " " << bytes;
        }
      }
    }
  }
}

TEST(Copy, LargeOnesToo) {
  auto source = pattern(kStreamingBytes + 77);
  std::vector<unsigned char> target(source.size());
  ASSERT_EQ(roda_cpu_device()->copy(target.data(), source.data(), source.size(), nullptr, nullptr), RODA_OK);
  EXPECT_EQ(target, source);
}

void pack_and_unpack(std::vector<std::size_t> sizes) {
  std::vector<std::vector<unsigned char>> tensors, back;
  std::vector<roda_pack_item> items, back_items;
  std::size_t offset = 0;
  for (std::size_t size : sizes) {
    tensors.push_back(pattern(size));
    back.emplace_back(size);
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    items.push_back({tensors[i].data(), offset, sizes[i]});
    back_items.push_back({back[i].data(), offset, sizes[i]});
    offset += sizes[i];
  }
  std::vector<unsigned char> buffer(offset + 1, 0xee);
  const roda_device* cpu = roda_cpu_device();
  ASSERT_EQ(cpu->pack(buffer.data(), items.data(), items.size(), nullptr, nullptr), RODA_OK);
  ASSERT_EQ(cpu->unpack(buffer.data(), back_items.data(), back_items.size(), nullptr, nullptr), RODA_OK);
  EXPECT_EQ(back, tensors);
  EXPECT_EQ(buffer.back(), 0xee);
}

TEST(Pack, ManyTensorsComeBack) { pack_and_unpack({1, 0, 17, 4096, 3, 100000}); }
TEST(Pack, LargeBucketsComeBack) { pack_and_unpack({kStreamingBytes / 2 + 1, 13, kStreamingBytes / 2}); }

TEST(Alloc, IsAlignedAndWritable) {
  const roda_device* cpu = roda_cpu_device();
  for (std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{3} << 20}) {
    roda_memory memory{};
    ASSERT_EQ(cpu->alloc(-1, bytes, &memory, nullptr), RODA_OK);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.address) % 64, 0u);
    EXPECT_EQ(memory.length, bytes);
    EXPECT_EQ(memory.kind, RODA_MEMORY_HOST);
    if (bytes > 0) static_cast<char*>(memory.address)[bytes - 1] = 1;
    cpu->free(&memory);
    EXPECT_EQ(memory.address, nullptr);
  }
}

TEST(Alloc, TooMuchIsAnError) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer ends the process instead";
#endif
  roda_memory memory{};
  EXPECT_EQ(roda_cpu_device()->alloc(-1, SIZE_MAX / 2, &memory, nullptr), RODA_ERR_NO_MEMORY);
}

}  // namespace
}  // namespace roda::cpu
