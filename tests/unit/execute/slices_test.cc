// Slices under way; and the order in which those of a composition begin their steps: equal on ranks that are
// differently fast, and never a ring of waits.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "core/execute/slices.h"

namespace roda::execute {
namespace {

using Begun = std::vector<std::pair<std::size_t, std::size_t>>;  // (step, slice) in the order in which they began

struct Composition {
  std::size_t lanes;
  std::size_t steps;
  std::size_t slices;
  std::vector<std::size_t> ordered;  // steps that share a group which needs one order

  std::vector<std::vector<std::size_t>> rivals() const {
    std::vector<std::vector<std::size_t>> rivals(steps);
    for (const std::size_t a : ordered) {
      for (const std::size_t b : ordered) {
        if (a != b) rivals[a].push_back(b);
      }
    }
    return rivals;
  }
  bool is_ordered(std::size_t step) const { return !rivals()[step].empty(); }
};

// One rank on its own: its lanes move in random order, and a step that has begun ends at once or much later.
Begun run(const Composition& pipeline, unsigned seed) {
  struct Lane {
    std::size_t slice = 0;
    std::size_t step = 0;
    bool busy = false;
    bool runs = false;
  };
  std::mt19937 random(seed);
  StartOrder order(pipeline.lanes, pipeline.rivals());
  order.reset(pipeline.slices);
  std::vector<Lane> lanes(pipeline.lanes);
  Begun begun;
  std::size_t entered = 0;
  std::size_t ended = 0;
  for (std::size_t idle = 0; ended < pipeline.slices && idle < 1000; ++idle) {
    const std::size_t index = random() % lanes.size();
    Lane& lane = lanes[index];
    if (!lane.busy && entered < pipeline.slices && entered % lanes.size() == index) lane = {entered++, 0, true, false};
    if (!lane.busy) continue;
    if (!lane.runs && order.may_begin(lane.step, lane.slice)) {
      order.begun(lane.step);
      begun.emplace_back(lane.step, lane.slice);
      lane.runs = true;
      idle = 0;
    } else if (lane.runs && random() % 4 == 0) {
      lane.runs = false;
      lane.busy = ++lane.step < pipeline.steps;
      ended += lane.busy ? 0 : 1;
      idle = 0;
    }
  }
  EXPECT_EQ(ended, pipeline.slices) << "nothing may begin any more";
  return begun;
}

Begun of_ordered(const Composition& pipeline, const Begun& begun) {
  Begun kept;
  for (const auto& one : begun) {
    if (pipeline.is_ordered(one.first)) kept.push_back(one);
  }
  return kept;
}

TEST(Pipeline, SlicesBeginAndEndInOrderWhateverTheirSpeed) {
  struct Slice {
    int left = 0;
    bool is_idle() const { return left == 0; }
  };
  Pipeline<Slice> pipeline;
  for (int place = 0; place < 3; ++place) pipeline.add(std::make_unique<Slice>());
  std::vector<std::size_t> begun, ended;
  std::size_t most = 0;
  pipeline.reset(8);
  for (int pass = 0; !pipeline.has_ended() && pass < 100; ++pass) {
    const auto begin = [&](Slice& place, std::size_t slice) {
      EXPECT_TRUE(place.is_idle());
      place.left = slice % 2 == 0 ? 5 : 1;
      begun.push_back(slice);
      most = std::max(most, begun.size() - ended.size());
      return Status();
    };
    const auto advance = [](Slice& place) {
      place.left -= place.left > 0 ? 1 : 0;
      return Status();
    };
    EXPECT_TRUE(pipeline.begin(begin).ok());
    EXPECT_TRUE(pipeline.advance(advance, [&](const Slice&, std::size_t slice) { ended.push_back(slice); }).ok());
  }
  EXPECT_EQ(begun, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(ended, begun);
  EXPECT_EQ(most, 3u);
}

TEST(StartOrder, OneOrderOnRanksOfAnySpeed) {
  for (std::size_t lanes = 1; lanes <= 5; ++lanes) {
    for (const auto& [steps, ordered] : std::vector<std::pair<std::size_t, std::vector<std::size_t>>>{
             {2, {0, 1}}, {3, {0, 2}}, {5, {0, 4}}, {5, {1, 3}}, {7, {0, 2, 3, 6}}}) {
      const Composition pipeline{lanes, steps, 11, ordered};
      const Begun wanted = of_ordered(pipeline, run(pipeline, 0));
      for (unsigned seed = 1; seed < 20; ++seed) {
        EXPECT_EQ(of_ordered(pipeline, run(pipeline, seed)), wanted) << lanes << " lanes, " << steps << " steps";
      }
    }
  }
}

TEST(StartOrder, WithoutRivalsOnlyTheSameStepIsWaitedFor) {
  StartOrder order(2, {{}, {}, {}});
  order.reset(2);
  EXPECT_FALSE(order.may_begin(0, 1));
  order.begun(0);
  EXPECT_TRUE(order.may_begin(0, 1));
  order.begun(0);
  order.begun(1);
  order.begun(2);
  EXPECT_TRUE(order.may_begin(1, 1));
}

TEST(StartOrder, ARivalGoesFirstWhereThePipelineHasItFirst) {
  StartOrder order(2, {{2}, {}, {0}});
  order.reset(4);
  order.begun(0);
  order.begun(0);
  EXPECT_FALSE(order.may_begin(0, 2));  // slices 0 and 1 have a lane each, and slice 2 comes after the end of slice 0
  order.begun(2);
  EXPECT_FALSE(order.may_begin(0, 2));  // the same tick: the older slice first
  order.begun(2);
  EXPECT_TRUE(order.may_begin(0, 2));
}

}  // namespace
}  // namespace roda::execute
