// Where the transport can't be used it says why, by what is missing. NCCL and CUDA are doubles.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <roda/sdk/error.hpp>

#include "plugins/base/cuda/driver.h"
#include "tests/transports/nccl/ranks.h"
#include "transports/nccl/collectives.h"
#include "transports/nccl/library.h"

extern "C" int cuDeviceGetCount(int* count);

namespace roda::nccl_test {
namespace {

namespace fs = std::filesystem;

std::string probe(Knobs knobs, int expected) {
  const roda_host host = host_of(&knobs);
  roda_error error = make_error();
  EXPECT_EQ(roda_nccl_transport()->probe(&host, &error), expected) << error.message;
  return error.message;
}

Knobs with(const char* name, const std::string& value) {
  Knobs knobs = knobs_of(0);
  knobs[name] = value;
  return knobs;
}

TEST(NcclProbe, SaysWhichLibraryAndVersionItFound) {
  probe(knobs_of(0), RODA_OK);
  const std::string text = roda_nccl_transport()->description;
  EXPECT_TRUE(says(text, {"NCCL 2.28.9", "libroda_nccl_double.so", "CUDA 13.0"})) << text;
}

TEST(NcclProbe, DoesNotStartCuda) {
  probe(knobs_of(0), RODA_OK);
  int count = 0;
  EXPECT_EQ(cuDeviceGetCount(&count), cuda::kNotInitialized);
}

TEST(NcclProbe, NamesALibraryThatIsNotThere) {
  const std::string text = probe(with("RODA_NCCL_LIBRARY", "libnccl-of-nowhere.so"), RODA_ERR_UNAVAILABLE);
  EXPECT_TRUE(says(text, {"no NCCL", "libnccl-of-nowhere.so", "RODA_NCCL_LIBRARY"})) << text;
}

TEST(NcclProbe, NamesADriverThatIsNotThere) {
  const std::string text = probe(with("RODA_TEST_CUDA_LIBRARY", "libcuda-of-nowhere.so"), RODA_ERR_UNAVAILABLE);
  EXPECT_TRUE(says(text, {"no CUDA driver", "libcuda-of-nowhere.so"})) << text;
}

TEST(NcclProbe, RefusesAnOldNccl) {
  const Setting version("RODA_NCCL_DOUBLE_VERSION", "2708");
  const std::string text = probe(knobs_of(0), RODA_ERR_UNAVAILABLE);
  EXPECT_TRUE(says(text, {"NCCL 2.7.8", "too old", "2.8"})) << text;
}

TEST(NcclProbe, RefusesALibraryThatIsNone) {
  const std::string text = probe(with("RODA_NCCL_LIBRARY", ::getenv("RODA_TEST_CUDA_LIBRARY")), RODA_ERR_UNAVAILABLE);
  EXPECT_TRUE(says(text, {"is no NCCL"})) << text;
}

TEST(NcclProbe, RefusesAnOldDriver) {
  const Setting version("RODA_CUDA_DOUBLE_VERSION", "10020");
  // By another name, because a driver is opened once.
  const fs::path link = fs::temp_directory_path() / ("roda-old-driver-" + std::to_string(::getpid()));
  fs::create_symlink(::getenv("RODA_TEST_CUDA_LIBRARY"), link);
  const std::string text = probe(with("RODA_TEST_CUDA_LIBRARY", link), RODA_ERR_UNAVAILABLE);
  fs::remove(link);
  EXPECT_TRUE(says(text, {"CUDA 10.2", "11.0"})) << text;
}

// Files of NCCL's name that the process has loaded are preferred, and two versions are refused.
TEST(NcclProbe, TakesALoadedLibraryAndRefusesTwoVersions) {
  const fs::path folder = fs::temp_directory_path() / ("roda-nccl-" + std::to_string(::getpid()));
  for (const char* name : {"RODA_NCCL_LIBRARY", "RODA_TEST_OLD_NCCL"}) {
    fs::create_directories(folder / name);
    fs::create_symlink(::getenv(name), folder / name / "libnccl.so.2");
  }
  void* first = ::dlopen((folder / "RODA_NCCL_LIBRARY" / "libnccl.so.2").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(first, nullptr) << ::dlerror();
  EXPECT_EQ(nccl::Library::find(nullptr)->version, 22809);
  void* second = ::dlopen((folder / "RODA_TEST_OLD_NCCL" / "libnccl.so.2").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(second, nullptr) << ::dlerror();
  const std::string text = probe(with("RODA_NCCL_LIBRARY", ""), RODA_ERR_UNAVAILABLE);
  EXPECT_TRUE(says(text, {"two versions of NCCL", "2.28.9", "2.8.4", "RODA_NCCL_LIBRARY="})) << text;
  ::dlclose(second);
  ::dlclose(first);
  fs::remove_all(folder);
}

TEST(NcclVersions, AreWrittenInBothCodings) {
  EXPECT_EQ(nccl::version_text(2804), "2.8.4");
  EXPECT_EQ(nccl::version_text(21003), "2.10.3");
  EXPECT_EQ(nccl::version_text(22707), "2.27.7");
}

TEST(NcclSupport, DependsOnTheVersion) {
  using nccl::is_supported;
  EXPECT_TRUE(is_supported(2804, RODA_ALLREDUCE, RODA_FLOAT16, RODA_SUM));
  EXPECT_FALSE(is_supported(2804, RODA_ALLREDUCE, RODA_BFLOAT16, RODA_SUM));
  EXPECT_TRUE(is_supported(21003, RODA_ALLREDUCE, RODA_BFLOAT16, RODA_SUM));
  EXPECT_FALSE(is_supported(2804, RODA_ALLREDUCE, RODA_FLOAT32, RODA_AVERAGE));
  EXPECT_TRUE(is_supported(21003, RODA_REDUCESCATTER, RODA_FLOAT32, RODA_AVERAGE));
  EXPECT_FALSE(is_supported(22105, RODA_ALLREDUCE, RODA_INT32, RODA_AVERAGE));
  EXPECT_FALSE(is_supported(22105, RODA_ALLREDUCE, RODA_BFLOAT16, RODA_AVERAGE)) << "it would be rounded twice";
  EXPECT_FALSE(is_supported(22105, RODA_ALLREDUCE, RODA_INT16, RODA_SUM));
  EXPECT_TRUE(is_supported(22105, RODA_ALLGATHER, RODA_INT16, RODA_SUM));
  EXPECT_FALSE(is_supported(22105, RODA_BARRIER, RODA_UINT8, RODA_SUM));
  EXPECT_FALSE(
      roda_nccl_transport()->collective_supported(nullptr, RODA_ALLREDUCE, RODA_FLOAT32, RODA_SUM, RODA_MEMORY_HOST));
}

}  // namespace
}  // namespace roda::nccl_test
