// Where the transport can't be used it says why, by what is missing.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/transports/thread_ranks.h"
#include "transports/verbs/verbs.h"

namespace {

using roda::transport_test::Knobs;

std::string probe(Knobs knobs, int expected) {
  const roda_host host = roda::transport_test::host_of(&knobs);
  roda_error error{};
  error.struct_size = sizeof error;
  EXPECT_EQ(roda_verbs_transport()->probe(&host, &error), expected) << error.message;
  return error.message;
}

void expect_in(const std::string& part, const std::string& text) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Probe, NamesALibraryThatIsNotThere) {
  expect_in("libibverbs1", probe({{"RODA_TEST_VERBS_LIBRARY", "libibverbs-of-nowhere.so"}}, RODA_ERR_UNAVAILABLE));
}

TEST(Probe, NamesWhatAnOldLibraryLacks) {
  const std::string text =
      probe({{"RODA_TEST_VERBS_LIBRARY", std::getenv("RODA_TEST_OLD_VERBS")}}, RODA_ERR_UNAVAILABLE);
  expect_in("has no ibv_get_device_list", text);
  expect_in("older than rdma-core 32", text);
}

TEST(Probe, SaysThatThereIsNoDevice) {
  const Knobs knobs{{"RODA_TEST_VERBS_LIBRARY", std::getenv("RODA_TEST_NO_DEVICES")}};
  expect_in("no RDMA device", probe(knobs, RODA_ERR_UNAVAILABLE));
}

TEST(Probe, RefusesASettingThatIsNoNumber) {
  expect_in("RODA_TEST_VERBS_TIMEOUT=soon is not a number; 1 to 31 is expected",
            probe({{"RODA_TEST_VERBS_TIMEOUT", "soon"}}, RODA_ERR_INVALID));
}

}  // namespace
