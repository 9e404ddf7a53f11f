#include "transports/mpi/mpi.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

namespace roda::mpi {
namespace {

using Variables = std::map<std::string, std::string>;

Getter getter(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

TEST(MpiLaunchTest, NothingFoundWithoutALauncher) {
  const Variables none;
  EXPECT_FALSE(find_launch(Flavour::kOpenMpi, getter(none)).found);
  EXPECT_FALSE(find_launch(Flavour::kMpich, getter(none)).found);
  EXPECT_EQ(why_no_common_world({}, getter(none)), "");
}

TEST(MpiLaunchTest, OpenMpisMarksAreNotMpichs) {
  const Variables variables{{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_NAMESPACE", "1234"}};
  const Launch launch = find_launch(Flavour::kOpenMpi, getter(variables));
  EXPECT_TRUE(launch.found);
  EXPECT_EQ(launch.rank, 2);
  EXPECT_EQ(launch.size, 4);
  EXPECT_EQ(launch.job, "1234");
  EXPECT_FALSE(find_launch(Flavour::kMpich, getter(variables)).found);
}

TEST(MpiLaunchTest, AnyLauncherMayStartAProgramOfTheStandard) {
  const Variables open_mpi{{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}};
  const Variables hydra{{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}};
  EXPECT_EQ(find_launch(Flavour::kStandard, getter(open_mpi)).rank, 2);
  EXPECT_EQ(find_launch(Flavour::kStandard, getter(hydra)).rank, 1);
}

TEST(MpiLaunchTest, ALibraryIsLookedForBesideTheFirstLauncherInThePath) {
  namespace fs = std::filesystem;
  const fs::path root = fs::canonical(fs::temp_directory_path()) / ("roda-launch-test-" + std::to_string(::getpid()));
  for (const char* folder : {"none/bin", "first/bin", "second/bin", "links"}) fs::create_directories(root / folder);
  std::ofstream(root / "first/bin/mpiexec") << "";
  std::ofstream(root / "second/bin/mpirun") << "";
  fs::create_symlink(root / "second/bin/mpirun", root / "links/mpirun");
  const std::string at = root.string();
  EXPECT_EQ(prefix_of_launcher((at + "/none/bin:" + at + "/first/bin:" + at + "/second/bin").c_str()), root / "first");
  EXPECT_EQ(prefix_of_launcher((at + "/links:" + at + "/first/bin").c_str()), root / "second");
  EXPECT_EQ(prefix_of_launcher((at + "/none/bin").c_str()), "");
  EXPECT_EQ(prefix_of_launcher(nullptr), "");
  fs::remove_all(root);
}

TEST(MpiLaunchTest, PmiIsMpichsAndSlurmTellsStepsApart) {
  const Variables variables{{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}, {"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "1"}};
  const Launch launch = find_launch(Flavour::kMpich, getter(variables));
  EXPECT_TRUE(launch.found);
  EXPECT_EQ(launch.size, 3);
  EXPECT_EQ(launch.job, "/77.1");
  EXPECT_FALSE(find_launch(Flavour::kOpenMpi, getter(variables)).found);
}

TEST(MpiLaunchTest, HalfASetOfMarksIsNone) {
  const Variables variables{{"OMPI_COMM_WORLD_RANK", "2"}};
  EXPECT_FALSE(find_launch(Flavour::kOpenMpi, getter(variables)).found);
}

TEST(MpiLaunchTest, RanksOfAnotherLauncherHaveNoCommonWorld) {
  const Variables horovodrun{{"HOROVOD_RANK", "1"}, {"HOROVOD_SIZE", "4"}};
  EXPECT_NE(why_no_common_world({}, getter(horovodrun)).find("horovodrun --mpi"), std::string::npos);
  // A job that horovodrun starts inside one process of mpirun: all its ranks inherit the same marks.
  const Launch one_process{true, 0, 1, "1", "mpirun"};
  EXPECT_NE(why_no_common_world(one_process, getter(horovodrun)), "");
  const Launch enough{true, 0, 4, "1", "mpirun"};
  EXPECT_EQ(why_no_common_world(enough, getter(horovodrun)), "");
  const Variables alone{{"HOROVOD_RANK", "0"}, {"HOROVOD_SIZE", "1"}};
  EXPECT_EQ(why_no_common_world({}, getter(alone)), "");
  const Variables elastic{{"HOROVOD_RANK", "0"}, {"HOROVOD_SIZE", "1"}, {"HOROVOD_ELASTIC", "1"}};
  EXPECT_NE(why_no_common_world({}, getter(elastic)), "");
}

TEST(MpiPiecesTest, CoverTheWholeInOrder) {
  const std::size_t before = largest_count();
  for (const std::size_t limit : {1, 3, 7, 100}) {
    largest_count() = limit;
    for (const std::size_t total : {0, 1, 6, 7, 8, 21}) {
      std::size_t next = 0;
      for_each_piece(total, [&](std::size_t offset, int count) {
        EXPECT_EQ(offset, next);
        EXPECT_GT(count, 0);
        EXPECT_LE(static_cast<std::size_t>(count), limit);
        next += static_cast<std::size_t>(count);
      });
      EXPECT_EQ(next, total);
    }
  }
  largest_count() = before;
}

}  // namespace
}  // namespace roda::mpi
