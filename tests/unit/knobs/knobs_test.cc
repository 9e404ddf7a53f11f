#include "core/knobs/knobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>

#include "core/knobs/table.h"
#include "transports/nccl/nccl.h"
#include "transports/tcp/tcp.h"
#include "transports/verbs/verbs.h"

namespace roda {
namespace {

using Environment = std::map<std::string, std::string>;

Knobs read(const Environment& environment, Status* status) {
  return Knobs::from_environment(
      [&](const char* name) -> const char* {
        auto at = environment.find(name);
        return at == environment.end() ? nullptr : at->second.c_str();
      },
      status);
}

Knobs read_ok(const Environment& environment) {
  Status status;
  Knobs knobs = read(environment, &status);
  EXPECT_TRUE(status.ok()) << status.message();
  return knobs;
}

std::string error_of(const Environment& environment) {
  Status status;
  (void)read(environment, &status);
  EXPECT_EQ(status.code(), RODA_ERR_INVALID);
  return status.message();
}

DeclaredSettings settings_of(const auto& table) {
  DeclaredSettings all;
  for (const auto& setting : table) all.push_back(&setting.told);
  return all;
}

TEST(KnobTable, NamesAreUniqueAndDefaultsAreWellFormed) {
  std::set<std::string> names;
  for (const knobs::Row& row : knobs::table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_NE(row.help[0], '\0') << row.name;
    if (row.default_text == nullptr || row.default_text[0] == '\0') continue;
    Knobs scratch;
    std::string warning;
    Status status = knobs::assign(row, row.default_text, &scratch, &warning);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(warning, "");
    if (!std::holds_alternative<std::monostate>(row.member)) {
      EXPECT_EQ(knobs::render(row, scratch), row.default_text) << row.name;
    }
  }
}

TEST(Knobs, DefaultsAreHorovods) {
  Knobs knobs = read_ok({});
  EXPECT_EQ(knobs.fusion_threshold, 128 * 1024 * 1024);
  EXPECT_FALSE(knobs.cycle_time_ms.has_value());
  EXPECT_EQ(knobs.cache_capacity, 1024);
  EXPECT_EQ(knobs.stall_check_seconds, 60);
  EXPECT_EQ(knobs.stall_shutdown_seconds, 600);
  EXPECT_EQ(knobs.gloo_timeout_seconds, 30);
  EXPECT_EQ(knobs.outstanding_buckets, 2);
  EXPECT_EQ(knobs.rendezvous_port, -1);
  EXPECT_FALSE(knobs.rank.has_value());
  EXPECT_EQ(knobs.log_level, "warning");
  EXPECT_TRUE(knobs.warnings().empty());
}

TEST(Knobs, ValuesAreReadTyped) {
  Knobs knobs = read_ok({{"HOROVOD_FUSION_THRESHOLD", "0"},
                         {"HOROVOD_CYCLE_TIME", "2.5"},
                         {"HOROVOD_RANK", "3"},
                         {"HOROVOD_SIZE", " 8 "},
                         {"HOROVOD_CPU_OPERATIONS", "GLOO"},
                         {"HOROVOD_TIMELINE", "/tmp/Trace.json"}});
  EXPECT_EQ(knobs.fusion_threshold, 0);
  EXPECT_EQ(knobs.cycle_time_ms, 2.5);
  EXPECT_EQ(knobs.rank, 3);
  EXPECT_EQ(knobs.size, 8);
  EXPECT_EQ(knobs.cpu_operations, "gloo");
  EXPECT_EQ(knobs.timeline, "/tmp/Trace.json");
  EXPECT_TRUE(knobs.is_set("HOROVOD_FUSION_THRESHOLD"));
  EXPECT_FALSE(knobs.is_set("HOROVOD_CACHE_CAPACITY"));
}

TEST(Knobs, FlagsFollowHorovodsReading) {
  EXPECT_TRUE(read_ok({{"HOROVOD_STALL_CHECK_DISABLE", "1"}}).stall_check_disable);
  EXPECT_TRUE(read_ok({{"HOROVOD_STALL_CHECK_DISABLE", "2"}}).stall_check_disable);
  EXPECT_FALSE(read_ok({{"HOROVOD_STALL_CHECK_DISABLE", "-1"}}).stall_check_disable);
  EXPECT_TRUE(read_ok({{"HOROVOD_DYNAMIC_PROCESS_SETS", "-1"}}).dynamic_process_sets);
  Knobs knobs = read_ok({{"HOROVOD_STALL_CHECK_DISABLE", "true"}});
  EXPECT_FALSE(knobs.stall_check_disable);
  ASSERT_EQ(knobs.warnings().size(), 1u);
  EXPECT_EQ(knobs.warnings()[0], "HOROVOD_STALL_CHECK_DISABLE='true' is no integer and counts as 0; use 1 or 0");
}

TEST(Knobs, MalformedValuesAreErrorsThatNameAll) {
  EXPECT_EQ(error_of({{"HOROVOD_CACHE_CAPACITY", "many"}}),
            "HOROVOD_CACHE_CAPACITY='many': expected an integer from 0 to 16777216 (entries)");
  EXPECT_EQ(error_of({{"HOROVOD_FUSION_THRESHOLD", "-1"}}),
            "HOROVOD_FUSION_THRESHOLD='-1': expected an integer of at least 0 (bytes)");
  EXPECT_EQ(error_of({{"HOROVOD_FUSION_THRESHOLD", "64MB"}}),
            "HOROVOD_FUSION_THRESHOLD='64MB': expected an integer of at least 0 (bytes)");
  EXPECT_EQ(error_of({{"HOROVOD_CYCLE_TIME", "nan"}}),
            "HOROVOD_CYCLE_TIME='nan': expected a number of at least 0 (ms)");
  error_of({{"HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "few"}});
  error_of({{"HOROVOD_RANK", "99999999999"}});
  error_of({{"HOROVOD_RANK", "1 2"}});
  error_of({{"HOROVOD_RANK", "+-1"}});
  error_of({{"HOROVOD_GLOO_RENDEZVOUS_PORT", "65536"}});
}

TEST(Knobs, EmptyCountsAsUnset) {
  Knobs knobs = read_ok({{"HOROVOD_CACHE_CAPACITY", ""}, {"HOROVOD_RANK", ""}});
  EXPECT_EQ(knobs.cache_capacity, 1024);
  EXPECT_FALSE(knobs.rank.has_value());
}

TEST(Knobs, OurRendezvousNameWinsOverTheContracts) {
  EXPECT_EQ(read_ok({{"HOROVOD_GLOO_RENDEZVOUS_ADDR", "a"}}).rendezvous_addr, "a");
  EXPECT_EQ(read_ok({{"HOROVOD_GLOO_RENDEZVOUS_ADDR", "a"}, {"HOROVOD_RENDEZVOUS_ADDR", "b"}}).rendezvous_addr, "b");
}

TEST(Knobs, ASettingWithoutEffectIsSaid) {
  Knobs knobs = read_ok({{"HOROVOD_CCL_CACHE", "1"}});
  ASSERT_EQ(knobs.warnings().size(), 1u);
  EXPECT_EQ(knobs.warnings()[0], "HOROVOD_CCL_CACHE has no effect in this version");
}

TEST(Knobs, AgreementCoversWhatMustBeTheSameAndNothingElse) {
  Knobs defaults = read_ok({});
  EXPECT_EQ(read_ok({{"HOROVOD_LOG_LEVEL", "debug"}, {"HOROVOD_LOCAL_RANK", "1"}}).agreement_text(),
            defaults.agreement_text());
  EXPECT_EQ(read_ok({{"HOROVOD_CACHE_CAPACITY", "01024"}}).agreement_text(), defaults.agreement_text());
  Knobs other = read_ok({{"HOROVOD_CACHE_CAPACITY", "1"}});
  EXPECT_NE(other.agreement_text(), defaults.agreement_text());
  EXPECT_NE(other.agreement_text().find("HOROVOD_CACHE_CAPACITY=1\n"), std::string::npos);
  Knobs a = read_ok({{"HOROVOD_TIMELINE", "/a"}});
  EXPECT_EQ(a.agreement_text(), read_ok({{"HOROVOD_TIMELINE", "DYNAMIC"}}).agreement_text());
  EXPECT_NE(a.agreement_text(), defaults.agreement_text());
}

TEST(Knobs, DescribeShowsValuesAndSourceButNoSecret) {
  Knobs knobs = read_ok({{"_HOROVOD_SECRET_KEY", "c2VjcmV0"}, {"HOROVOD_CACHE_CAPACITY", "7"}, {"HOROVOD_CMAKE", "x"}});
  for (bool as_json : {false, true}) {
    std::string text = knobs.describe(as_json, settings_of(tcp_transport::kSettings));
    EXPECT_NE(text.find("RODA_TCP_LANES"), std::string::npos);
    EXPECT_EQ(text.find(knobs::kTestPrefix), std::string::npos);
    EXPECT_EQ(text.find("c2VjcmV0"), std::string::npos);
    EXPECT_NE(text.find("(hidden)"), std::string::npos);
    for (const knobs::Row& row : knobs::table()) {
      EXPECT_EQ(text.find(row.name) != std::string::npos, row.reader != knobs::Reader::kTest) << row.name;
    }
  }
  EXPECT_NE(knobs.describe(true, {}).find(R"("name": "HOROVOD_CACHE_CAPACITY", "value": "7", "source": "environment")"),
            std::string::npos);
  EXPECT_NE(knobs.describe(true, {}).find(R"("name": "HOROVOD_CYCLE_TIME", "value": "unset", "source": "default")"),
            std::string::npos);
}

// What is ours and not Horovod's, for users: a dozen at most.
TEST(KnobTable, HasFewNamesOfItsOwn) {
  std::set<std::string> own;
  for (const knobs::Row& row : knobs::table()) {
    const std::string name = row.name;
    EXPECT_EQ(row.reader == knobs::Reader::kTest, name.starts_with("RODA_TEST_")) << name;
    own.insert(name);
  }
  for (const auto& declared :
       {settings_of(tcp_transport::kSettings), settings_of(verbs::kSettings), settings_of(nccl::kSettings)}) {
    for (const roda_setting* each : declared) own.insert(each->name);
  }
  std::erase_if(own,
                [](const std::string& name) { return !name.starts_with("RODA_") || name.starts_with("RODA_TEST_"); });
  EXPECT_EQ(
      own, (std::set<std::string>{"RODA_DETERMINISTIC", "RODA_FLIGHT_FOLDER", "RODA_GPU_TIMEOUT_SECONDS", "RODA_LEVELS",
                                  "RODA_REPLACE_GLOO", "RODA_TOPOLOGY_FILE", "RODA_TOPOLOGY_DUMP_FILE",
                                  "RODA_TCP_IFACE", "RODA_TCP_LANES", "RODA_VERBS_DEVICES", "RODA_VERBS_GID_INDEX",
                                  "RODA_VERBS_TRAFFIC_CLASS", "RODA_NCCL_LIBRARY"}));
}

TEST(Knobs, ValuesForPluginsAreCheckedToo) {
  const auto error = [](const DeclaredSettings& declared, std::string_view name, const char* text) {
    return check(declared, [&](const char* asked) { return asked == name ? text : nullptr; }).message();
  };
  const DeclaredSettings tcp = settings_of(tcp_transport::kSettings), verbs = settings_of(verbs::kSettings);
  EXPECT_EQ(error(tcp, "RODA_TCP_LANES", "17"), "RODA_TCP_LANES='17': expected an integer from 1 to 16 (connections)");
  EXPECT_EQ(error(verbs, "RODA_VERBS_GID_INDEX", "first"),
            "RODA_VERBS_GID_INDEX='first': expected an integer from -1 to 255");
  EXPECT_EQ(error(tcp, "RODA_TCP_LANES", "4") + error(verbs, "RODA_VERBS_GID_INDEX", "-1"), "");
}

TEST(Knobs, OurNamesAreWarnedAboutLikeHorovods) {
  const char* environment[] = {"RODA_DETERMINSTIC=1", "RODA_TCP_LANE=2",  "RODA_CROW_FEATHER=9",  "RODA_PIGEONS_AGE=1",
                               "RODA_TEST_THIS=1",    "_RODA_TASK_FDS=1", "RODA_CROW_FEATHERS=2", nullptr};
  std::string all;
  for (const std::string& w :
       unknown_settings(environment, {"RODA_CROW_FEATHERS", "RODA_TCP_LANES", "RODA_TEST_CROW"}, {"pigeons", "tcp"})) {
    all += w + "\n";
  }
  EXPECT_EQ(all,
            "RODA_DETERMINSTIC is no setting of this version and is ignored; the nearest is RODA_DETERMINISTIC\n"
            "RODA_TCP_LANE is no setting of this version and is ignored; the nearest is RODA_TCP_LANES\n"
            "RODA_CROW_FEATHER is no setting of this version and is ignored; the nearest is RODA_CROW_FEATHERS\n");
  EXPECT_EQ(unknown_settings(environment, {}, {}).size(), 5u);
  const char* far[] = {"RODA_PIGEONS_AGE=1", nullptr};  // the nearest would be no help
  EXPECT_EQ(unknown_settings(far, {}, {}),
            std::vector<std::string>{"RODA_PIGEONS_AGE is no setting of this version and is ignored; `roda-info --env` "
                                     "prints those that there are"});
}

TEST(Knobs, UnknownNamesAreWarnedAboutWithTheNearest) {
  const char* environment[] = {
      "PATH=/bin", "HOROVOD_FUSION_TRESHOLD=1", "HOROVOD_RANK=0", "HOROVOD_SHM_CHUNK=4", "HOROVOD_UCX_=1", nullptr};
  std::vector<std::string> warnings = unknown_settings(environment, {}, {"shm", "ucx"});
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings[0],
            "HOROVOD_FUSION_TRESHOLD is no setting of this version and is ignored; the nearest is "
            "HOROVOD_FUSION_THRESHOLD");
  EXPECT_EQ(unknown_settings(environment, {}, {}).size(), 3u);
  EXPECT_TRUE(unknown_settings(nullptr, {}, {}).empty());
}

}  // namespace
}  // namespace roda
