// The topology that a job of two ranks on one host agrees on, and the files that may take its place. Each test inits.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>

#include "tests/multi/engine/rank.h"

namespace roda::test {
namespace {

int launched_rank() { return std::atoi(std::getenv("HOROVOD_RANK")); }

Outcome init() {
  roda_error error{};
  error.struct_size = sizeof error;
  const int code = roda_init(nullptr, &error);
  return {code, code == RODA_OK ? "" : error.message};
}

std::string described() {
  const std::unique_ptr<char, void (*)(char*)> text(roda_describe_topology(1), roda_free_text);
  return text != nullptr ? text.get() : "";
}

// A file of this process's own, gone with the object.
class File {
 public:
  explicit File(const std::string& text = "") : path_("/tmp/roda-topology-" + std::to_string(::getpid()) + ".json") {
    if (!text.empty()) std::ofstream(path_) << text;
  }
  ~File() { ::unlink(path_.c_str()); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class JobTopology : public testing::Test {
 protected:
  void TearDown() override {
    roda_shutdown();
    ::unsetenv("RODA_TOPOLOGY_FILE");
    ::unsetenv("RODA_TOPOLOGY_DUMP_FILE");
  }
};

constexpr const char* kMachine = R"("machines": {"big": {"cpus": "0-63", "model": "replayed"}})";

TEST_F(JobTopology, IsDescribedAndWrittenByTheFirstRank) {
  const File file;
  ::setenv("RODA_TOPOLOGY_DUMP_FILE", file.path().c_str(), 1);
  ASSERT_EQ(init().code, RODA_OK);
  EXPECT_NE(described().find(R"("ranks": "0-1")"), std::string::npos) << described();
  EXPECT_EQ(std::ifstream(file.path()).good(), rank() == 0);
  if (rank() != 0) return;
  roda_error error{};
  error.struct_size = sizeof error;
  const std::unique_ptr<char, void (*)(char*)> text(roda_describe_topology_file(file.path().c_str(), 1, &error),
                                                    roda_free_text);
  ASSERT_NE(text, nullptr) << error.message;
  EXPECT_EQ(text.get(), described());
}

TEST_F(JobTopology, AFileOfAMachineTakesItsPlace) {
  const File file(std::string(R"({"roda_topology": 1, )") + kMachine + "}");
  ::setenv("RODA_TOPOLOGY_FILE", file.path().c_str(), 1);
  const Outcome o = init();
  ASSERT_EQ(o.code, RODA_OK) << o.message;
  EXPECT_NE(described().find(R"("model": "replayed")"), std::string::npos) << described();
  EXPECT_NE(described().find(R"("ranks": "0-1")"), std::string::npos) << described();
}

TEST_F(JobTopology, AFileThatContradictsTheJobIsEverybodysError) {
  const File file(std::string(R"({"roda_topology": 1, )") + kMachine +
                  R"(, "hosts": [{"name": "node0", "machine": "big", "ranks": "0-7"}]})");
  ::setenv("RODA_TOPOLOGY_FILE", file.path().c_str(), 1);
  const Outcome o = init();
  EXPECT_EQ(o.code, RODA_ERR_INVALID);
  EXPECT_NE(o.message.find("contradicts the job: host 0 (node0) has 8 ranks (0-7) in the file"), std::string::npos)
      << o.message;
}

TEST_F(JobTopology, AFileOnOneRankAloneIsEverybodysError) {
  const File file(std::string(R"({"roda_topology": 1, )") + kMachine + "}");
  if (launched_rank() == 0) ::setenv("RODA_TOPOLOGY_FILE", file.path().c_str(), 1);
  const Outcome o = init();
  EXPECT_EQ(o.code, RODA_ERR_INVALID);
  EXPECT_NE(o.message.find("rank 1 read another RODA_TOPOLOGY_FILE than rank 0, or none"), std::string::npos)
      << o.message;
}

TEST_F(JobTopology, AFileThatOneRankCannotReadIsEverybodysError) {
  if (launched_rank() == 1) ::setenv("RODA_TOPOLOGY_FILE", "/no/such/file", 1);
  const Outcome o = init();
  EXPECT_EQ(o.code, RODA_ERR_INVALID);
  EXPECT_NE(o.message.find("Rank 1: the topology file '/no/such/file' can't be read"), std::string::npos) << o.message;
}

TEST_F(JobTopology, ALimitBelowTheRanksIsSaidByEveryRank) {
  const File file(std::string(R"({"roda_topology": 1, )") + kMachine +
                  R"(, "hosts": [{"name": "node0", "machine": "big", "ranks": "0-1"}],
                      "bindings": [{"cpus": "0-3", "cpu_limit": 1.5}, {"cpus": "0-3", "cpu_limit": 1.5}]})");
  ::setenv("RODA_TOPOLOGY_FILE", file.path().c_str(), 1);
  testing::internal::CaptureStderr();
  const Outcome o = init();
  const std::string said = testing::internal::GetCapturedStderr();
  ASSERT_EQ(o.code, RODA_OK) << o.message;
  EXPECT_NE(said.find("2 ranks (0-1) have 1.5 cores between them (limit of their cgroup)"), std::string::npos) << said;
}

}  // namespace
}  // namespace roda::test
