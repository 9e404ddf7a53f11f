#include "core/bootstrap/join.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace roda {
namespace {

using Variables = std::map<std::string, std::string>;

DeclaredJob job_of(const Variables& variables, Status* status, const Knobs& knobs = Knobs()) {
  DeclaredJob job;
  *status = find_declared_job(
      knobs,
      [&](const char* name) {
        const auto at = variables.find(name);
        return at == variables.end() ? nullptr : at->second.c_str();
      },
      &job);
  return job;
}

DeclaredJob job_of(const Variables& variables) {
  Status status;
  DeclaredJob job = job_of(variables, &status);
  EXPECT_TRUE(status.ok()) << status.message();
  return job;
}

Variables together(Variables all, const Variables& more) {
  for (const auto& [name, value] : more) all.insert_or_assign(name, value);
  return all;
}

const Variables kTorchrun{{"TORCHELASTIC_RUN_ID", "none"},
                          {"RANK", "3"},
                          {"WORLD_SIZE", "4"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "node1"},
                          {"MASTER_PORT", "29500"}};
const Variables kMpirun{
    {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
const Variables kMpiexec{{"PMI_RANK", "1"}, {"PMI_SIZE", "6"}};
const Variables kSrun{{"SLURM_JOB_ID", "77"},        {"SLURM_STEP_ID", "0"},
                      {"SLURM_PROCID", "5"},         {"SLURM_STEP_NUM_TASKS", "6"},
                      {"SLURM_STEP_NUM_NODES", "3"}, {"SLURM_STEP_NODELIST", "gpu[07-09]"},
                      {"SLURM_NTASKS", "6"}};
const Variables kPlain{{"RANK", "1"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "1234"}};

TEST(DeclaredJobTest, NothingSaysAnything) {
  const DeclaredJob job = job_of({{"PATH", "/bin"}, {"MASTER_ADDR", "10.0.0.1"}});
  EXPECT_EQ(job.launcher, "");
  EXPECT_EQ(job.size, 1);
}

TEST(DeclaredJobTest, EveryLauncherIsKnownByItsVariables) {
  const DeclaredJob torchrun = job_of(kTorchrun);
  EXPECT_EQ(torchrun.launcher, "torchrun");
  EXPECT_EQ(torchrun.rank, 3);
  EXPECT_EQ(torchrun.size, 4);
  EXPECT_FALSE(torchrun.is_one_host);
  EXPECT_EQ(torchrun.address, "node1");
  EXPECT_EQ(torchrun.port, 29500);
  EXPECT_EQ(torchrun.evidence, "RANK=3, WORLD_SIZE=4");

  const DeclaredJob mpirun = job_of(kMpirun);
  EXPECT_EQ(mpirun.launcher, "mpirun");
  EXPECT_TRUE(mpirun.is_mpi && mpirun.is_one_host);
  EXPECT_EQ(job_of(kMpiexec).size, 6);
  EXPECT_TRUE(job_of(kMpiexec).is_mpi);

  const DeclaredJob srun = job_of(kSrun);
  EXPECT_EQ(srun.launcher, "srun");
  EXPECT_EQ(srun.rank, 5);
  EXPECT_EQ(srun.address, "gpu07");
  EXPECT_FALSE(srun.is_one_host);

  const DeclaredJob plain = job_of(kPlain);
  EXPECT_EQ(plain.launcher, "the environment");
  EXPECT_EQ(plain.size, 8);
  EXPECT_EQ(plain.address, "10.0.0.1");
}

TEST(DeclaredJobTest, OneHostIsToldByLoopbackByTheLocalSizeAndBySlurm) {
  for (const char* address : {"localhost", "127.0.0.1", "::1"}) {
    EXPECT_TRUE(job_of(together(kPlain, {{"MASTER_ADDR", address}})).is_one_host);
  }
  EXPECT_TRUE(job_of(together(kTorchrun, {{"LOCAL_WORLD_SIZE", "4"}})).is_one_host);
  EXPECT_TRUE(job_of(together(kSrun, {{"SLURM_STEP_NUM_NODES", "1"}})).is_one_host);
}

TEST(DeclaredJobTest, TheShellsOfSallocAndSbatchAreNoStep) {
  Variables batch = kSrun;
  batch.erase("SLURM_STEP_ID");
  batch.erase("SLURM_STEP_NUM_TASKS");
  EXPECT_EQ(job_of(batch).launcher, "");
  EXPECT_EQ(job_of(together(kSrun, {{"SLURM_STEP_ID", "4294967290"}})).launcher, "");  // salloc's
  EXPECT_EQ(job_of(together(kSrun, {{"SLURM_STEP_ID", "4294967291"}})).launcher, "");  // sbatch's
  EXPECT_EQ(job_of(together(kSrun, {{"SLURM_STEP_NUM_TASKS", "1"}})).launcher, "");
}

TEST(DeclaredJobTest, TheInnermostLauncherIsTheOne) {
  const auto launcher = [](const Variables& a, const Variables& b) { return job_of(together(a, b)).launcher; };
  EXPECT_EQ(launcher(kTorchrun, kSrun), "torchrun");
  EXPECT_EQ(launcher(kTorchrun, kMpirun), "torchrun");
  EXPECT_EQ(launcher(kMpirun, kSrun), "mpirun");
  EXPECT_EQ(launcher(kMpirun, kPlain), "mpirun");
  EXPECT_EQ(launcher(kMpiexec, kSrun), "mpiexec");
  EXPECT_EQ(launcher(kPlain, kSrun), "the environment");
  EXPECT_EQ(job_of(together(kTorchrun, kSrun)).passed_over, "srun");
  EXPECT_TRUE(job_of(together(kTorchrun, kMpirun)).is_innermost);
  // One mpirun for one launcher that starts several.
  EXPECT_EQ(launcher(together(kMpirun, {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}), kPlain),
            "the environment");
  EXPECT_EQ(launcher(together(kTorchrun, {{"RANK", "0"}, {"WORLD_SIZE", "1"}}), kSrun), "torchrun");
}

TEST(DeclaredJobTest, OursComesBeforeAll) {
  Status status;
  Knobs knobs;
  knobs.size = 1;
  const DeclaredJob job = job_of(kTorchrun, &status, knobs);
  EXPECT_TRUE(status.ok() && job.is_ours);
  EXPECT_EQ(job.launcher, "");
}

TEST(DeclaredJobTest, WhatIsNoRankIsRefusedByItsVariables) {
  for (const char* rank : {"8", "-1", "one", "1x", "99999999999"}) {
    Status status;
    job_of(together(kPlain, {{"RANK", rank}}), &status);
    EXPECT_EQ(status.code(), RODA_ERR_INVALID) << rank;
    EXPECT_NE(status.message().find(std::string("RANK=") + rank + ", WORLD_SIZE=8"), std::string::npos);
  }
}

TEST(DeclaredJobTest, TasksThatAreNumberedAreRanks) {
  const Variables sized{{"MASTER_ADDR", "node1"}, {"WORLD_SIZE", "4"}};
  const Variables counted{{"MASTER_ADDR", "node1"}, {"SLURM_ARRAY_TASK_COUNT", "6"}, {"SGE_TASK_LAST", "7"}};
  const DeclaredJob pod = job_of(together(sized, {{"JOB_COMPLETION_INDEX", "2"}}));
  EXPECT_EQ(pod.launcher, "an indexed Job");
  EXPECT_EQ(pod.rank, 2);
  EXPECT_EQ(pod.size, 4);
  EXPECT_EQ(pod.address, "node1");
  EXPECT_FALSE(pod.is_one_host || pod.is_mpi);
  EXPECT_EQ(job_of(together(sized, {{"PBS_ARRAY_INDEX", "3"}})).rank, 3);
  EXPECT_EQ(job_of(together(sized, {{"SGE_TASK_ID", "4"}})).rank, 3) << "counted from 1";
  EXPECT_EQ(job_of(together(counted, {{"SLURM_ARRAY_TASK_ID", "5"}})).size, 6);
  EXPECT_EQ(job_of(together(counted, {{"SGE_TASK_ID", "7"}})).size, 7);
  const Variables both = together(counted, {{"SLURM_ARRAY_TASK_ID", "1"}, {"WORLD_SIZE", "2"}});
  EXPECT_EQ(job_of(both).size, 2);
  EXPECT_NE(job_of(both).identity, job_of(together(both, {{"SLURM_ARRAY_JOB_ID", "7"}})).identity);
}

TEST(DeclaredJobTest, TasksThatAreNumberedAreNoRanksOfTheirOwnAccord) {
  const Variables task{{"JOB_COMPLETION_INDEX", "1"}, {"SLURM_ARRAY_TASK_ID", "1"}, {"SLURM_ARRAY_TASK_COUNT", "4"}};
  EXPECT_EQ(job_of(together(task, {{"WORLD_SIZE", "4"}})).launcher, "") << "without MASTER_ADDR";
  const Variables told = together(task, {{"MASTER_ADDR", "node1"}, {"WORLD_SIZE", "4"}});
  EXPECT_EQ(job_of(told).launcher, "an indexed Job");
  EXPECT_EQ(job_of(together(told, kSrun)).launcher, "srun");
  EXPECT_EQ(job_of(together(told, kMpirun)).launcher, "mpirun");
  EXPECT_EQ(job_of(together(told, kTorchrun)).rank, 3);
  EXPECT_EQ(job_of(together(told, {{"RANK", "2"}})).rank, 2);
  EXPECT_EQ(job_of({{"MASTER_ADDR", "node1"}, {"JOB_COMPLETION_INDEX", "1"}}).launcher, "") << "of how many?";
  EXPECT_EQ(job_of({{"MASTER_ADDR", "n"}, {"SGE_TASK_ID", "undefined"}, {"SGE_TASK_LAST", "undefined"}}).launcher, "");
}

TEST(DeclaredJobTest, AnIndexOutsideOfTheJobIsRefusedByItsVariables) {
  const auto refusal = [](const Variables& more) {
    Status status;
    job_of(together({{"MASTER_ADDR", "node1"}, {"WORLD_SIZE", "4"}}, more), &status);
    EXPECT_EQ(status.code(), RODA_ERR_INVALID);
    return status.message();
  };
  EXPECT_NE(refusal({{"JOB_COMPLETION_INDEX", "4"}}).find("JOB_COMPLETION_INDEX=4, WORLD_SIZE=4"), std::string::npos);
  EXPECT_NE(refusal({{"SGE_TASK_ID", "0"}}).find("SGE_TASK_ID=0, WORLD_SIZE=4"), std::string::npos);
  EXPECT_NE(refusal({{"SGE_TASK_ID", "5"}}).find("(the first one's number is 1)"), std::string::npos);
}

// Without an address it can't meet, but it is no job of one.
TEST(DeclaredJobTest, NumbersWithoutAnAddressAreAJob) {
  EXPECT_EQ(job_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}}).size, 2);
  EXPECT_EQ(job_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).launcher, "");
}

TEST(DeclaredJobTest, SrunGivesMpichsVariablesAndKnowsTheHosts) {
  const DeclaredJob job = job_of(together(kSrun, kMpiexec));
  EXPECT_EQ(job.launcher, "mpiexec");
  EXPECT_EQ(job.address, "gpu07");
}

TEST(DeclaredJobTest, JobsAreTold) {
  EXPECT_EQ(job_of(kPlain).identity, job_of(together(kPlain, {{"RANK", "0"}})).identity);
  EXPECT_NE(job_of(kPlain).identity, job_of(together(kPlain, {{"MASTER_PORT", "1235"}})).identity);
  EXPECT_NE(job_of(kSrun).identity, job_of(together(kSrun, {{"SLURM_STEP_ID", "1"}})).identity);
  const int port = job_of(kSrun).port;
  EXPECT_EQ(port, job_of(together(kSrun, {{"SLURM_PROCID", "0"}})).port);
  EXPECT_TRUE(port >= 20000 && port < 30000) << port;
  EXPECT_EQ(job_of(together(kSrun, {{"MASTER_PORT", "29500"}})).port, 29500);
}

TEST(DeclaredJobTest, FirstHostOfSlurmsList) {
  EXPECT_EQ(first_host("alone"), "alone");
  EXPECT_EQ(first_host("a,b[1-2]"), "a");
  EXPECT_EQ(first_host("node[07-09,12],login"), "node07");
  EXPECT_EQ(first_host("node[12,14]-ib,x"), "node12-ib");
  EXPECT_EQ(first_host("rack[0-3]n[5-9]"), "rack0n5");
  EXPECT_EQ(first_host("broken[1"), "broken1");
  EXPECT_EQ(first_host(""), "");
}

}  // namespace
}  // namespace roda
