// roda-sim's plots and the names it understands.
#include "tools/sim/plot.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tools/sim/candidates.h"

namespace roda::simtool {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

Plot two_curves() {
  Plot plot;
  plot.title = "a < b";
  plot.add("ring", 10, 100);
  plot.add("ring", 1000, 10000);
  plot.add("tree", 10, 50);
  plot.add("tree", 0, 50);  // nothing on a logarithmic axis
  return plot;
}

TEST(Plot, DrawsEveryPointAndNeedsNothingElse) {
  const std::string svg = to_svg(two_curves());
  EXPECT_EQ(svg.rfind("<svg ", 0), 0u);
  EXPECT_EQ(count(svg, "<circle"), 3u);
  EXPECT_EQ(count(svg, "<polyline"), 2u);
  EXPECT_EQ(count(svg, "a &lt; b"), 1u);
  EXPECT_EQ(count(svg, "http"), 1u);  // the name space
  EXPECT_EQ(count(svg, "src="), 0u);
  EXPECT_NE(svg.find("ring: 1000, 10000"), std::string::npos);
}

TEST(Plot, PutsDecadesOnTheirLines) {
  const std::string svg = to_svg(two_curves());
  EXPECT_NE(svg.find("<circle cx=\"70\""), std::string::npos);   // the first decade, at the left
  EXPECT_NE(svg.find("<circle cx=\"570\""), std::string::npos);  // the last, at the right
}

TEST(Plot, IsWrittenAsAPageByItsName) {
  const auto path = std::filesystem::temp_directory_path() / "roda_plot_test.html";
  write_plot(two_curves(), path.string());
  EXPECT_EQ(read_file(path.string()).rfind("<!doctype html>", 0), 0u);
  std::filesystem::remove(path);
  EXPECT_THROW(write_plot(two_curves(), "/nowhere/at/all.svg"), Failure);
}

TEST(Candidates, AreUnderstoodByName) {
  const sim::Cluster cluster = load_cluster("");
  const auto allreduce = schedule::Collective::kAllreduce;
  EXPECT_EQ(scenario_of(cluster, allreduce, "ring", 8, 1).plan.stages.size(), 1u);
  const auto torus = scenario_of(cluster, allreduce, "torus:pairwise/rabenseifner/bruck", 12, 1);
  ASSERT_EQ(torus.plan.stages.size(), 3u);
  EXPECT_EQ(torus.plan.stages[1].algorithm, "rabenseifner");
  EXPECT_THROW(scenario_of(cluster, allreduce, "circle", 8, 1), Failure);
  EXPECT_THROW(scenario_of(cluster, allreduce, "torus:ring", 8, 1), Failure);
  EXPECT_THROW(scenario_of(cluster, allreduce, "pyramid:a/b/c", 8, 1), Failure);
  EXPECT_THROW(scenario_of(cluster, schedule::Collective::kBroadcast, "torus", 8, 1), Failure);
}

TEST(Candidates, TheBestSliceIsKept) {
  const auto scenario =
      scenario_of(load_cluster(""), schedule::Collective::kAllreduce, "double_binary_tree", 16, 64 << 20);
  const Row best = simulate(scenario, "tree", {}, {1 << 20, 16 << 20, 0});
  const Row whole = simulate(scenario, "tree", {}, {0});
  EXPECT_GT(best.slice_bytes, 0);
  EXPECT_LT(best.outcome.seconds, whole.outcome.seconds);
}

}  // namespace
}  // namespace roda::simtool
