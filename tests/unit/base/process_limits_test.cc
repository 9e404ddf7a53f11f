#include "plugins/base/process_limits.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <exception>
#include <string>

#include "plugins/base/helper_thread.h"
#include "plugins/base/shared_segment.h"
#include "plugins/base/status.h"
#include "tests/unit/base/in_child.h"

namespace roda {
namespace {

bool says(const std::string& text, const char* part) {
  const bool does = text.find(part) != std::string::npos;
  if (!does) std::fprintf(stderr, "'%s' lacks '%s'\n", text.c_str(), part);
  return does;
}

void limit(__rlimit_resource resource, rlim_t value) {
  const rlimit both{value, value};
  ::setrlimit(resource, &both);
}

TEST(Limits, WithoutThemNothingIsSaid) {
  EXPECT_TRUE(in_child([] {
    limit(RLIMIT_AS, RLIM_INFINITY);
    limit(RLIMIT_FSIZE, RLIM_INFINITY);
    return address_space_left() == kNoLimit && largest_file() == kNoLimit && limit_behind(ENOMEM).empty() &&
           limit_behind(EFBIG).empty() && limit_behind(EACCES).empty();
  }));
}

TEST(Limits, OnDescriptorsAreNamedByTheCallThatMeetsThem) {
  EXPECT_TRUE(in_child([] {
    limit(RLIMIT_NOFILE, 8);
    while (::dup(STDERR_FILENO) >= 0) {
    }
    return says(Status::of_errno("dup").message(), "may have 8 open files (RLIMIT_NOFILE)");
  }));
}

TEST(Limits, OnAddressSpaceAreCountedAndNamed) {
  EXPECT_TRUE(in_child([] {
    limit(RLIMIT_AS, rlim_t{1} << 40);
    const std::uint64_t left = address_space_left();
    const std::uint64_t taken = std::uint64_t{1} << 30;
    if (::mmap(nullptr, taken, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) return false;
    if (left - address_space_left() < taken) return false;
    if (::mmap(nullptr, left, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) return false;
    return says(Status::of_errno("mmap").message(), "(RLIMIT_AS, `ulimit -v`: 1048576 MiB, of which ");
  }));
}

// Making the file as long would raise a signal that ends the process.
TEST(Limits, OnFilesHoldForSharedMemoryAndKillNobody) {
  for (const bool force_posix : {false, true}) {
    EXPECT_TRUE(in_child([force_posix] {
      limit(RLIMIT_FSIZE, 64 << 10);
      SharedSegment segment;
      if (!SharedSegment::create("roda-test", 64 << 10, &segment, force_posix).ok()) return false;
      const Status status = SharedSegment::create("roda-test", 68 << 10, &segment, force_posix);
      return status.code() == RODA_ERR_UNAVAILABLE && says(status.message(), "(RLIMIT_FSIZE, `ulimit -f`: 64 KiB)");
    }));
  }
}

// The administrator has no such limit.
TEST(Limits, OnThreadsAreNamedByAThreadThatCannotStart) {
  EXPECT_TRUE(in_child([] {
    if (::geteuid() == 0 && ::setuid(54'321) != 0) return false;
    limit(RLIMIT_NPROC, 0);
    try {
      start_thread("one", [] {}).join();
    } catch (const std::exception& error) {
      return says(error.what(), "the thread one can't be started: ") && says(error.what(), "RLIMIT_NPROC");
    }
    return false;
  }));
}

}  // namespace
}  // namespace roda
