#include "core/execute/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace roda::execute {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// Bytes from `begin` on, `length` at most, of which large pages are wished for, as the kernel tells.
std::size_t wished(const char* begin, std::size_t length) {
  std::ifstream maps("/proc/self/smaps");
  std::size_t first = 0, last = 0, bytes = 0;
  for (std::string line; std::getline(maps, line);) {
    std::size_t from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%zx-%zx ", &from, &to) == 2) first = from, last = to;
    const auto whole = reinterpret_cast<std::size_t>(begin);
    const bool is_inside = first >= whole && last <= whole + length;
    if (is_inside && line.starts_with("VmFlags:") && line.find(" hg") != std::string::npos) bytes += last - first;
  }
  return bytes;
}

TEST(LargePages, AreWishedForInsideWhatIsLargeAndNowhereElse) {
  constexpr std::size_t kAll = 32 * kMiB;
  auto* all = static_cast<char*>(mmap(nullptr, kAll, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(all, MAP_FAILED);
  prefer_large_pages(nullptr, kAll);
  prefer_large_pages(all, 4 * kMiB - 1);
  EXPECT_EQ(wished(all, kAll), 0u);
  // 8 MiB that begin 12 KiB behind a large page hold three whole ones.
  char* begin = all + (2 * kMiB - reinterpret_cast<std::uintptr_t>(all) % (2 * kMiB)) + 12 * 1024;
  if (madvise(all, 4096, MADV_HUGEPAGE) != 0) GTEST_SKIP() << "a kernel without large pages";
  ASSERT_EQ(madvise(all, 4096, MADV_NOHUGEPAGE), 0);
  prefer_large_pages(begin, 8 * kMiB);
  EXPECT_EQ(wished(begin, 8 * kMiB), 6 * kMiB);
  EXPECT_EQ(wished(all, kAll), 6 * kMiB);
  munmap(all, kAll);
}

}  // namespace
}  // namespace roda::execute
