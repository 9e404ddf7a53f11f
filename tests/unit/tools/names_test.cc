#include "tools/common/names.h"

#include <gtest/gtest.h>
#include <roda/abi/types.h>

namespace roda::tools {
namespace {

TEST(Names, CollectivesInAnySpelling) {
  EXPECT_EQ(parse_collective("allreduce"), RODA_ALLREDUCE);
  EXPECT_EQ(parse_collective("Reduce-Scatter"), RODA_REDUCESCATTER);
  EXPECT_EQ(parse_collective("all_to_all"), RODA_ALLTOALL);
  EXPECT_FALSE(parse_collective("join"));  // moves no caller's data
  EXPECT_EQ(parse_collective("reduce"), RODA_REDUCE);
  EXPECT_FALSE(parse_collective("gather"));
  EXPECT_NE(no_collective("gather").find("no collective: gather (one of allreduce, allgather,"), std::string::npos);
}

TEST(Names, EveryPrintedCollectiveIsReadBack) {
  for (const std::int32_t collective : measurable_collectives()) {
    EXPECT_EQ(parse_collective(collective_text(collective)), collective);
  }
}

TEST(Names, DtypesAndOps) {
  EXPECT_EQ(parse_dtype("bfloat16"), RODA_BFLOAT16);
  EXPECT_EQ(parse_dtype("float8_e5m2"), RODA_FLOAT8_E5M2);
  EXPECT_FALSE(parse_dtype("float8"));
  EXPECT_EQ(parse_reduce_op("average"), RODA_AVERAGE);
  EXPECT_EQ(parse_reduce_op("adasum"), RODA_ADASUM);
}

TEST(Names, ListsDropWhatIsEmpty) {
  EXPECT_EQ(split_list("a, b,,c "), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(split_list(" ,").empty());
}

}  // namespace
}  // namespace roda::tools
