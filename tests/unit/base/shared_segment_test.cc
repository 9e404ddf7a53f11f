#include "plugins/base/shared_segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <utility>

namespace roda {
namespace {

std::set<std::string> names_in_dev_shm() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) names.insert(entry.path());
  return names;
}

class SharedSegmentTest : public ::testing::TestWithParam<bool> {
 protected:
  SharedSegment make(std::size_t bytes) {
    SharedSegment segment;
    Status status = SharedSegment::create("roda-test", bytes, &segment, GetParam());
    EXPECT_TRUE(status.ok()) << status.message();
    return segment;
  }
};

TEST_P(SharedSegmentTest, IsSharedZeroFilledAndRounded) {
  SharedSegment mine = make(5000);
  EXPECT_EQ(mine.size(), 8192u);
  EXPECT_EQ(mine.data()[4999], std::byte{0});
  SharedSegment theirs;
  ASSERT_TRUE(SharedSegment::attach(UniqueFd(::dup(mine.fd())), 5000, &theirs).ok());
  EXPECT_NE(mine.data(), theirs.data());
  mine.data()[4321] = std::byte{7};
  EXPECT_EQ(theirs.data()[4321], std::byte{7});
  EXPECT_EQ(mine.is_memfd(), !GetParam());
  EXPECT_EQ(theirs.is_memfd(), !GetParam());
}

TEST_P(SharedSegmentTest, LeavesNoName) {
  auto before = names_in_dev_shm();
  SharedSegment segment = make(4096);
  EXPECT_EQ(before, names_in_dev_shm());
}

TEST_P(SharedSegmentTest, RefusesToAttachToLessThanAnnounced) {
  SharedSegment mine = make(4096);
  SharedSegment theirs;
  Status status = SharedSegment::attach(UniqueFd(::dup(mine.fd())), 4097, &theirs);
  EXPECT_EQ(status.code(), RODA_ERR_INVALID);
  EXPECT_FALSE(theirs);
}

TEST_P(SharedSegmentTest, PunchedPagesReadAsZero) {
  SharedSegment segment = make(4 * 4096);
  ASSERT_TRUE(segment.reserve(0, 4 * 4096).ok());
  std::memset(segment.data(), 1, segment.size());
  segment.punch(100, 3 * 4096);  // whole pages inside: 1 and 2
  EXPECT_EQ(segment.data()[4095], std::byte{1});
  EXPECT_EQ(segment.data()[4096], std::byte{0});
  EXPECT_EQ(segment.data()[3 * 4096 - 1], std::byte{0});
  EXPECT_EQ(segment.data()[3 * 4096], std::byte{1});
}

TEST_P(SharedSegmentTest, ReserveRefusesRangesOutside) {
  SharedSegment segment = make(4096);
  EXPECT_EQ(segment.reserve(0, 4097).code(), RODA_ERR_INVALID);
  EXPECT_EQ(segment.reserve(~std::size_t{0}, 2).code(), RODA_ERR_INVALID);
}

TEST_P(SharedSegmentTest, MoreThanTheMachineHasIsAnErrorNotAFault) {
  SharedSegment segment = make(std::size_t{1} << 46);  // sparse: only the reservation fails
  EXPECT_EQ(segment.reserve(0, segment.size()).code(), RODA_ERR_NO_MEMORY);
  ASSERT_TRUE(segment.reserve(0, 4096).ok());
  segment.data()[0] = std::byte{1};
}

TEST_P(SharedSegmentTest, IsNotMappedInAForkedChild) {
  SharedSegment segment = make(4096);
  pid_t child = ::fork();
  if (child == 0) {
    unsigned char resident;
    ::_exit(::mincore(segment.data(), 4096, &resident) != 0 && errno == ENOMEM ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_P(SharedSegmentTest, DescriptorIsCloseOnExec) {
  SharedSegment segment = make(4096);
  EXPECT_NE(::fcntl(segment.fd(), F_GETFD) & FD_CLOEXEC, 0);
}

INSTANTIATE_TEST_SUITE_P(MemfdAndPosix, SharedSegmentTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "posix" : "memfd"; });

TEST(SharedSegment, RefusesAMemfdThatCanShrink) {
  UniqueFd fd(::memfd_create("roda-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(fd.get(), 4096), 0);
  SharedSegment segment;
  EXPECT_EQ(SharedSegment::attach(std::move(fd), 4096, &segment).code(), RODA_ERR_INVALID);
}

TEST(SharedSegment, AMemfdCannotShrink) {
  SharedSegment segment;
  ASSERT_TRUE(SharedSegment::create("roda-test", 8192, &segment).ok());
  EXPECT_NE(::ftruncate(segment.fd(), 4096), 0);
}

TEST(SharedSegment, RefusesWhatIsNoFile) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  UniqueFd other(ends[1]);
  SharedSegment segment;
  EXPECT_EQ(SharedSegment::attach(UniqueFd(ends[0]), 1, &segment).code(), RODA_ERR_INVALID);
}

}  // namespace
}  // namespace roda
