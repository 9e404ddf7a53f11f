// Where no UCX can be used the transport says why. Run with a UCX that can't be used in front of all others.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "transports/ucx/ucx.h"

TEST(UcxLibrary, WhatCanNotBeUsedIsSaidInWords) {
  roda_error error{};
  error.struct_size = sizeof error;
  for (int i = 0; i < 2; ++i) {  // each time the same
    EXPECT_EQ(roda_ucx_transport()->probe(nullptr, &error), RODA_ERR_UNAVAILABLE);
    EXPECT_NE(std::string(error.message).find(std::getenv("RODA_TEST_REASON")), std::string::npos) << error.message;
  }
  roda_context* context = nullptr;
  EXPECT_EQ(roda_ucx_transport()->context_create(nullptr, &context, &error), RODA_ERR_UNAVAILABLE);
}
