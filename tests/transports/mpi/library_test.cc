// Where no MPI can be used the transport says why. Run with an MPI that can't be used in front of all others.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "transports/mpi/mpi.h"

namespace {

TEST(MpiLibraryTest, WhatCanNotBeUsedIsSaidInWords) {
  roda_host host{};
  host.struct_size = sizeof host;
  host.knob = [](void*, const char*) -> const char* { return nullptr; };
  roda_error error{};
  error.struct_size = sizeof error;
  for (int i = 0; i < 2; ++i) {  // each time the same
    EXPECT_EQ(roda_mpi_transport()->probe(&host, &error), RODA_ERR_UNAVAILABLE);
    EXPECT_NE(std::string(error.message).find(std::getenv("RODA_TEST_REASON")), std::string::npos) << error.message;
  }
  EXPECT_EQ(roda_mpi_bootstrap()->launched_here(&host), 0);
  roda_job* job = nullptr;
  roda_job_options options{};
  options.struct_size = sizeof options;
  EXPECT_EQ(roda_mpi_bootstrap()->start(&host, &options, &job, &error), RODA_ERR_UNAVAILABLE);
  EXPECT_EQ(job, nullptr);
}

}  // namespace
