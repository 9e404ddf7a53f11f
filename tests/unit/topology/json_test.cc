#include "core/topology/json.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/unit/folder.h"
#include "tests/unit/topology/samples.h"

namespace roda::topology {
namespace {

std::string refusal(const std::string& text) {
  Topology topology;
  const Status status = from_json(text, &topology);
  EXPECT_EQ(status.code(), RODA_ERR_INVALID) << text;
  EXPECT_TRUE(topology.machines.empty());
  return status.message();
}

// A topology of one machine, `fields` added to its object.
std::string machine_with(const std::string& fields) {
  return R"({"roda_topology": 1, "machines": {"m": {"cpus": "0-3")" + fields + "}}}";
}

TEST(TopologyJson, EverythingComesBack) {
  const Topology topology = sample_topology();
  Topology again;
  const Status status = from_json(to_json(topology), &again);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(again, topology);
  EXPECT_EQ(hash(again), hash(topology));
  Machine machine;
  ASSERT_TRUE(from_json(to_json(sample_machine()), &machine).ok());
  EXPECT_EQ(machine, sample_machine());
}

TEST(TopologyJson, WhatALargerDocumentHoldsIsRead) {
  Topology again;
  ASSERT_TRUE(from_json(R"({"version": "9", "topology": )" + to_json(sample_topology()) + "}", &again).ok());
  EXPECT_EQ(again, sample_topology());
}

TEST(TopologyJson, UnknownFieldsAreIgnored) {
  Topology topology;
  const Status status =
      from_json(machine_with(R"(, "colour": "red", "nics": [{"name": "e", "driver": 1}])"), &topology);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(topology.machines[0].machine.nics[0].name, "e");
}

TEST(TopologyJson, WhatIsWrongIsRefusedByItsPath) {
  EXPECT_EQ(refusal("{").rfind("it is no JSON: parse error at line 1, column 2", 0), 0u);
  EXPECT_EQ(refusal("[]"), "the document must be an object, not []");
  EXPECT_EQ(refusal("{}"), "/roda_topology is missing");
  EXPECT_EQ(refusal(R"({"roda_topology": 2})"), "/roda_topology must be an integer from 1 to 1, not 2");
  EXPECT_EQ(refusal(R"({"roda_topology": 1})"), "/machines is missing");
  EXPECT_EQ(refusal(R"({"roda_topology": 1, "machines": {"m": {}}})"), "/machines/m/cpus is missing");
  EXPECT_EQ(refusal(R"({"topology": {"roda_topology": 1, "machines": []}})"),
            "/topology/machines must be an object, not []");
  const struct {
    const char* fields;
    const char* text;
  } kCases[] = {
      {R"(, "cores": [7])", R"(/machines/m/cores/0 must be a list of numbers like "0-3,8", ascending, not 7)"},
      {R"(, "cores": ["0", "x"])", R"(/machines/m/cores/1 must be a list of numbers like "0-3,8", ascending, not "x")"},
      {R"(, "cores": ["0", "4"])", "/machines/m/cores must be within /cpus: entry 1 names CPUs outside it"},
      {R"(, "nics": [{"speed_mbit": 1}])", "/machines/m/nics/0/name is missing"},
      {R"(, "nics": [{"name": "e", "speed_mbit": -5}])",
       "/machines/m/nics/0/speed_mbit must be an integer from 0 to 2147483647, not -5"},
      {R"(, "nics": [{"name": "e", "is_up": 1}])", "/machines/m/nics/0/is_up must be true or false, not 1"},
      {R"(, "nics": ["e"])", "/machines/m/nics/0 must be an object"},
      {R"(, "nics": [{"name": "e", "pci": 3}])", "/machines/m/nics/0/pci must be an object, not 3"},
      {R"(, "caches": [{"level": 9, "kib": 1, "shared_by": []}])", "/machines/m/caches/0/level must be an integer"},
      {R"(, "numa_nodes": [{"number": 0, "cpus": "0", "memory_gib": 1.5}])", "/machines/m/numa_nodes/0/memory_gib"},
      {R"(, "gpus": [{"model": "a", "peers": "0-1"}])", "/machines/m/gpus must be about GPUs 0 to 0"},
      {R"(, "gpus": [{"model": "a", "peer_links": {"one": 1}}])", "/machines/m/gpus/0/peer_links must be an object"},
      {R"(, "absent": {"a": 1})", "/machines/m/absent/a must be a text, not 1"},
      {R"(, "model": 18446744073709551615)", "/machines/m/model must be a text"},
      {R"(, "gpus": [{"model": "a", "switch_links": 18446744073709551615}])", "switch_links must be an integer"},
  };
  for (const auto& c : kCases) EXPECT_NE(refusal(machine_with(c.fields)).find(c.text), std::string::npos) << c.fields;
}

TEST(TopologyJson, HostsNameEveryRankOnce) {
  const std::string start = R"({"roda_topology": 1, "machines": {"m": {"cpus": "0"}}, "hosts": [)";
  EXPECT_NE(refusal(start + R"({"name": "a", "machine": "x", "ranks": "0"}]})")
                .find(R"(/hosts/0/machine must be the name of one of /machines, not "x")"),
            std::string::npos);
  const std::string a = R"({"name": "a", "machine": "m", "ranks": )";
  EXPECT_NE(refusal(start + a + R"("0-1"}, )" + a + R"("1"}]})").find("rank 2 is not"), std::string::npos);
  EXPECT_NE(refusal(start + a + R"("1"}]})").find("rank 0 is not"), std::string::npos);
  EXPECT_NE(refusal(start + a + R"("0"}], "bindings": [{"cpus": "0"}, {"cpus": "0"}]})").find("/bindings must be"),
            std::string::npos);
  EXPECT_NE(
      refusal(start + a + R"("0"}], "bindings": [{"cpus": "0", "cpu_limit": -1}]})").find("/bindings/0/cpu_limit"),
      std::string::npos);
}

// Every prefix of a document, and every document with one byte changed, is read or refused; nothing else happens.
TEST(TopologyJson, GarbageIsReadOrRefused) {
  const std::string text = to_json(sample_topology(), -1);
  Topology topology;
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(from_json(text.substr(0, length), &topology).ok()) << length;
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const char byte : {'9', '"', '{', '-', '\0', '\xff'}) {
      std::string changed = text;
      changed[i] = byte;
      static_cast<void>(from_json(changed, &topology));
    }
  }
}

TEST(TopologyJson, HashIgnoresSourcesAlone) {
  Machine machine = sample_machine();
  const std::string before = hash(machine);
  EXPECT_EQ(before.size(), 16u);
  machine.sources.clear();
  EXPECT_EQ(hash(machine), before);
  machine.nics[0].speed_mbit += 1;
  EXPECT_NE(hash(machine), before);
}

TEST(TopologyJson, DifferencesAreNamed) {
  Machine a = sample_machine();
  EXPECT_EQ(difference(a, a, "here", "there"), "");
  Machine b = a;
  b.sources = {"elsewhere"};
  EXPECT_EQ(difference(a, b, "here", "there"), "");
  b.numa_nodes[1].memory_gib = 32;
  EXPECT_EQ(difference(a, b, "for rank 0", "for rank 1"),
            "/numa_nodes/1/memory_gib is 16 for rank 0 and 32 for rank 1");
  b.gpus.pop_back();
  EXPECT_NE(difference(a, b, "here", "there").find("/gpus has 2 entries here and 1 there"), std::string::npos);
  b = a;
  b.model.clear();
  EXPECT_EQ(difference(a, b, "here", "there"), R"(/model is "sample" here and missing there)");
}

TEST(TopologyFile, IsWrittenWholeAndNamedWhenItIsWrong) {
  const Folder folder;
  const std::string path = folder.path() + "/t.json";
  ASSERT_TRUE(write_file(path, sample_topology()).ok());
  Topology topology;
  ASSERT_TRUE(load_file(path, &topology).ok());
  EXPECT_EQ(topology, sample_topology());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  EXPECT_NE(write_file(folder.path() + "/none/t.json", topology).message().find("/none/t.json"), std::string::npos);
  EXPECT_NE(load_file(folder.path() + "/absent", &topology).message().find("No such file"), std::string::npos);
  EXPECT_FALSE(load_file(folder.path(), &topology).ok());
  EXPECT_FALSE(load_file("/dev/zero", &topology).ok());
  folder.write("/bad.json", "{}");
  EXPECT_NE(load_file(folder.path() + "/bad.json", &topology).message().find("bad.json' is malformed: /roda_topology"),
            std::string::npos);
}

TEST(TopologyFile, TooLargeIsRefusedUnread) {
  const Folder folder;
  folder.write("/large.json", "");
  std::filesystem::resize_file(folder.path() + "/large.json", kMostFileBytes + 1);
  Topology topology;
  EXPECT_NE(load_file(folder.path() + "/large.json", &topology).message().find("are the most"), std::string::npos);
}

}  // namespace
}  // namespace roda::topology
