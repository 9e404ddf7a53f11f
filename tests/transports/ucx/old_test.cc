// A UCX that is older than the one this plugin was built for: this program's own answer takes the library's place.
#include <gtest/gtest.h>
#include <ucp/api/ucp.h>

#include <string>

#include "transports/ucx/ucx.h"

extern "C" void ucp_get_version(unsigned* major, unsigned* minor, unsigned* release) {
  *major = UCP_API_MAJOR;
  *minor = UCP_API_MINOR - 1;
  *release = 7;
}

TEST(UcxProbe, AnOlderLibraryIsNamedWithTheVersionThatIsNeeded) {
  roda_error error{};
  error.struct_size = sizeof error;
  EXPECT_EQ(roda_ucx_transport()->probe(nullptr, &error), RODA_ERR_UNAVAILABLE);
  const std::string found = std::to_string(UCP_API_MAJOR) + "." + std::to_string(UCP_API_MINOR - 1) + ".7";
  const std::string needed = std::to_string(UCP_API_MAJOR) + "." + std::to_string(UCP_API_MINOR);
  const std::string text = error.message;
  EXPECT_NE(text.find("UCX " + found + " is installed, but this plugin needs " + needed), std::string::npos) << text;
}
