#include <gtest/gtest.h>
#include <roda/sdk/settings.hpp>

#include <map>
#include <string>

namespace roda::sdk {
namespace {

struct Values {
  std::string name;
  bool flag;
  int number;
  std::size_t bytes;
};
constexpr Setting<Values> kTable[] = {
    {&Values::name, "RODA_X_NAME", "", "eth0", "A text."},
    {&Values::flag, "RODA_X_FLAG", "", "1", 0, 1, "A flag."},
    {&Values::number, "RODA_X_NUMBER", "", "-1", -1, 255, "A number."},
    {&Values::bytes, "RODA_TEST_X_BYTES", "bytes", "68719476736", 1, std::int64_t{1} << 40, "For tests."},
};

using Texts = std::map<std::string, std::string>;

roda_host host_of(Texts& texts) {
  roda_host host{};
  host.self = &texts;
  host.knob = [](void* self, const char* name) -> const char* {
    const Texts& all = *static_cast<Texts*>(self);
    const auto found = all.find(name);
    return found == all.end() ? nullptr : found->second.c_str();
  };
  return host;
}

std::string error_of(Texts texts) {
  const roda_host host = host_of(texts);
  try {
    read_settings(kTable, &host);
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), RODA_ERR_INVALID);
    return failure.what();
  }
  return "none";
}

TEST(Settings, DefaultsAreTheTables) {
  Texts texts{{"RODA_X_NAME", ""}};  // empty is unset
  const roda_host host = host_of(texts);
  for (const roda_host* from : {&host, static_cast<const roda_host*>(nullptr)}) {
    const Values values = read_settings(kTable, from);
    EXPECT_EQ(values.name, "eth0");
    EXPECT_TRUE(values.flag);
    EXPECT_EQ(values.number, -1);
    EXPECT_EQ(values.bytes, std::size_t{64} << 30);
  }
}

TEST(Settings, WhatIsGivenCounts) {
  Texts texts{{"RODA_X_NAME", "ib0"}, {"RODA_X_FLAG", "0"}, {"RODA_X_NUMBER", "255"}, {"RODA_TEST_X_BYTES", "7"}};
  const roda_host host = host_of(texts);
  const Values values = read_settings(kTable, &host);
  EXPECT_EQ(values.name, "ib0");
  EXPECT_FALSE(values.flag);
  EXPECT_EQ(values.number, 255);
  EXPECT_EQ(values.bytes, 7u);
}

TEST(Settings, AnErrorNamesTheSettingTheTextAndWhatIsAccepted) {
  EXPECT_EQ(error_of({{"RODA_X_NUMBER", "many"}}), "RODA_X_NUMBER=many is not a number; -1 to 255 is expected");
  EXPECT_EQ(error_of({{"RODA_X_NUMBER", "3x"}}), "RODA_X_NUMBER=3x is not a number; -1 to 255 is expected");
  EXPECT_EQ(error_of({{"RODA_X_NUMBER", "256"}}), "RODA_X_NUMBER=256 is out of range; -1 to 255 is expected");
  EXPECT_EQ(error_of({{"RODA_X_FLAG", "-2"}}), "RODA_X_FLAG=-2 is out of range; 0 to 1 is expected");
  EXPECT_EQ(error_of({{"RODA_TEST_X_BYTES", "99999999999999999999"}}),
            "RODA_TEST_X_BYTES=99999999999999999999 is out of range; 1 to 1099511627776 is expected");
}

TEST(Settings, TheListIsWhatIsDeclared) {
  std::string names;
  for (std::uint32_t i = 0; const roda_setting* setting = setting_at(kTable, i); ++i) {
    EXPECT_EQ(setting->struct_size, sizeof *setting);
    names += std::string(setting->name) + "=" + setting->default_text + (setting->is_number != 0 ? "# " : " ");
  }
  EXPECT_EQ(names, "RODA_X_NAME=eth0 RODA_X_FLAG=1# RODA_X_NUMBER=-1# RODA_TEST_X_BYTES=68719476736# ");
}

}  // namespace
}  // namespace roda::sdk
