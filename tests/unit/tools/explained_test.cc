// Predictions beside what the library says that it would run.
#include "tools/sim/explained.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tools/info/explanation.h"

namespace roda::simtool {
namespace {

using nlohmann::json;

json stage(const std::string& collective, const std::string& transport, const std::string& algorithm, int axis = 0) {
  return {{"collective", collective}, {"transport", transport},
          {"algorithm", algorithm},   {"axis", axis},
          {"where", "all"},           {"serves_one_host", transport == "near"}};
}

json candidate(const std::string& transport, const std::string& algorithm, const json& stages) {
  return {{"transport", transport}, {"algorithm", algorithm}, {"usable", true}, {"chosen", false}, {"stages", stages}};
}

json one_stage(const std::string& transport, const std::string& algorithm) {
  return candidate(transport, algorithm, json::array({stage("ALLREDUCE", transport, algorithm)}));
}

// Allreduces of 64 MiB of float32, of which the first candidate runs.
json told(int ranks, json candidates) {
  candidates[0]["chosen"] = true;
  return {{"collective", "ALLREDUCE"}, {"memory", "host"},
          {"bytes", 64 << 20},         {"ranks", ranks},
          {"network", json()},         {"candidates", std::move(candidates)}};
}

// On two hosts of two.
json told_on_hosts(const json& candidates) {
  json all = told(4, candidates);
  all["levels"] = json::array({{{"name", "host"}, {"units", {{0, 2}, {1, 2}}}}});
  return all;
}

json composed(const std::string& name) {
  return candidate("levels", name,
                   json::array({stage("REDUCESCATTER", "near", "direct"), stage("ALLREDUCE", "far", "ring", 1),
                                stage("ALLGATHER", "near", "direct")}));
}

json predicted(json all) {
  predict(&all);
  return all;
}

// The model's bytes are the plan's arithmetic: each of two hosts sends half of the ring's 2 (h-1)/h parts.
TEST(Explained, CountsBytesBetweenHosts) {
  const json all =
      predicted(told_on_hosts(json::array({composed("hierarchical"), one_stage("far", "ring"), composed("torus")})));
  const auto between = [&](int number) { return all["candidates"][number]["predicted"]["bytes_between_hosts"]; };
  EXPECT_NEAR(between(0), 2.0 * (64 << 20), 64);
  EXPECT_NEAR(between(1), 2 * 1.5 * (64 << 20), 64);
  EXPECT_NEAR(between(2), between(0), 64) << "of two hosts of two a torus is the same";
}

// A ring of messages between two ranks moves as much as they read from each other, and has both copy it.
TEST(Explained, CountsTheCopiesOfMessagesInsideAHost) {
  const json all = predicted(told(2, json::array({one_stage("near", "direct"), one_stage("near", "ring")})));
  const json &direct = all["candidates"][0]["predicted"], &ring = all["candidates"][1]["predicted"];
  EXPECT_EQ(ring["bytes_inside_hosts"], direct["bytes_inside_hosts"]);
  EXPECT_GT(ring["seconds"].get<double>(), 1.3 * direct["seconds"].get<double>());
}

TEST(Explained, GoesByTheHostsInterfaces) {
  json all = told_on_hosts(json::array({composed("hierarchical")}));
  const json assumed = predicted(all);
  all["network"] = {{"Gbit_s", 100}, {"is_infiniband", true}};
  const json known = predicted(all);
  const auto seconds = [](const json& of) { return of["candidates"][0]["predicted"]["seconds"].get<double>(); };
  EXPECT_LT(2 * seconds(known), seconds(assumed));
  EXPECT_EQ(assumed["links"], "assumed");
  EXPECT_EQ(known["links"], "assumed; the network's bandwidth as its interfaces tell it");
}

TEST(Explained, WhatIsNotKnownIsNotPredicted) {
  const json all = predicted(told(4, json::array({one_stage("library", "native"), one_stage("near", "ring")})));
  EXPECT_FALSE(all["candidates"][0].contains("predicted"));
  EXPECT_TRUE(all["candidates"][1].contains("predicted"));
  json on_gpus = told(4, json::array({one_stage("near", "ring")}));
  on_gpus["memory"] = "cuda";
  EXPECT_FALSE(predicted(on_gpus)["candidates"][0].contains("predicted"));
}

TEST(Explained, SaysWhatRunsFirstAndTheRestByTime) {
  json unusable = one_stage("far", "ring");
  unusable.update({{"usable", false}, {"reason", "all ranks are on one host"}});
  json ring = one_stage("near", "ring"), direct = one_stage("near", "direct");
  ring["reason"] = direct["reason"] = "given by a rule";
  json all = told(2, json::array({direct, unusable, ring}));
  all["hosts"] = 1;
  const std::string words = tools::in_words(predicted(all));
  EXPECT_TRUE(words.starts_with("allreduce of 64 MiB over 2 ranks of one host: near/direct runs, 13")) << words;
  const std::size_t runs = words.find("  > near/direct"), reserve = words.find("    near/ring");
  EXPECT_LT(runs, reserve) << words;
  const std::size_t slower = words.find(" %  in reserve: given by a rule", reserve);
  EXPECT_LT(slower, words.find('\n', reserve)) << words;
  EXPECT_LT(words.rfind("in reserve: "), words.find("not usable: all ranks are on one host")) << words;
  EXPECT_NE(words.find("over links that are assumed; what runs moves 128 MiB inside hosts and 0 B between them"),
            std::string::npos)
      << words;
}

}  // namespace
}  // namespace roda::simtool
