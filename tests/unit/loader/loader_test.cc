#include "plugins/loader/loader.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "plugins/loader/host.h"
#include "plugins/loader/plugin_file.h"

namespace roda::plugins {
namespace {

namespace fs = std::filesystem;

class LoaderTest : public ::testing::Test {
 protected:
  LoaderTest() {
    ::setenv("RODA_TEST_KNOB", "set", 1);
    fs::create_directories(folder_);
  }
  ~LoaderTest() override { fs::remove_all(folder_); }

  static fs::path sample(const std::string& name) {
    return fs::path(std::getenv("RODA_TEST_PLUGINS")) / (name + ".so");
  }
  const PluginRecord& add(const std::string& name) { return loader_.add(sample(name).string()); }
  void expect_refused(const std::string& name, const std::string& reason) {
    const PluginRecord& record = add(name);
    EXPECT_FALSE(record.usable) << name;
    EXPECT_EQ(record.transport, nullptr) << name;
    EXPECT_NE(record.reason.find(reason), std::string::npos) << name << ": " << record.reason;
  }
  fs::path place(const std::string& name, const std::string& folder, const std::string& as) {
    fs::create_directories(folder_ / folder);
    fs::copy_file(sample(name), folder_ / folder / as);
    return folder_ / folder / as;
  }

  const fs::path folder_ = fs::path(::testing::TempDir()) / ("roda_loader_test." + std::to_string(::getpid()));
  Host host_{[](int, const char*, const char*) {}, nullptr};
  Loader loader_{*host_.table()};
};

TEST_F(LoaderTest, BootstrapIsOptionalAndChecked) {
  EXPECT_EQ(add("good").bootstrap, nullptr);
  const PluginRecord& record = add("bootstrap");
  ASSERT_TRUE(record.usable) << record.reason;
  ASSERT_NE(record.bootstrap, nullptr);
  EXPECT_EQ(record.bootstrap->launched_here(host_.table()), 1);
  EXPECT_NE(record.bootstrap->peer_lost, nullptr);
  const PluginRecord& older = add("older_bootstrap");
  ASSERT_TRUE(older.usable) << older.reason;
  EXPECT_EQ(older.bootstrap->peer_lost, nullptr) << "an entry that its table does not hold";
  expect_refused("short_bootstrap", "its bootstrap table of 40 bytes is too short");
  expect_refused("bootstrap_of_another", "its bootstrap table 'another'");
  expect_refused("half_a_bootstrap", "its bootstrap table leaves finish empty");
}

TEST_F(LoaderTest, SettingsAreHandedOverUsableOrNot) {
  EXPECT_TRUE(add("good").settings.empty());
  const PluginRecord& record = add("with_setting");
  EXPECT_FALSE(record.usable);
  ASSERT_EQ(record.settings.size(), 1u);
  EXPECT_STREQ(record.settings.front()->name, "RODA_COLOUR");
}

TEST_F(LoaderTest, GoodPluginIsUsable) {
  const PluginRecord& record = add("good");
  ASSERT_TRUE(record.usable) << record.reason;
  EXPECT_EQ(record.name, "sample");
  EXPECT_EQ(record.kind, "transport");
  EXPECT_EQ(record.abi_version, RODA_ABI_VERSION);
  EXPECT_EQ(record.description, "does nothing");
  EXPECT_EQ(record.reason, "");
  ASSERT_NE(record.transport, nullptr);
  EXPECT_EQ(record.transport->struct_size, sizeof(roda_transport));
  EXPECT_EQ(loader_.find("sample"), &record);
  EXPECT_EQ(loader_.find("good"), nullptr);
}

TEST_F(LoaderTest, SignalsStayTheProgramsOwn) {
  struct sigaction mine {};
  mine.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGHUP, &mine, nullptr), 0);
  EXPECT_TRUE(add("good").usable);
  struct sigaction now {};
  ASSERT_EQ(::sigaction(SIGHUP, nullptr, &now), 0);
  EXPECT_EQ(now.sa_handler, mine.sa_handler);
  ::signal(SIGHUP, SIG_DFL);
}

TEST_F(LoaderTest, WhatWantsToBeNamedIsOpenedWhenItIs) {
  place("only_by_name", "first", "roda_shy.so");
  loader_.scan({(folder_ / "first").string()});
  ASSERT_EQ(loader_.records().size(), 1u);
  EXPECT_FALSE(loader_.records()[0]->usable);
  EXPECT_NE(loader_.records()[0]->reason.find("only where it is named"), std::string::npos);
  EXPECT_EQ(std::getenv("RODA_TEST_RAN_shy"), nullptr);
  EXPECT_EQ(loader_.find("another"), nullptr);
  EXPECT_EQ(std::getenv("RODA_TEST_RAN_shy"), nullptr);
  const PluginRecord* record = loader_.find("shy");
  ASSERT_NE(record, nullptr);
  EXPECT_TRUE(record->usable) << record->reason;
  EXPECT_NE(record->transport, nullptr);
  EXPECT_EQ(record->reason, "");
  EXPECT_NE(std::getenv("RODA_TEST_RAN_shy"), nullptr);
}

TEST_F(LoaderTest, AFileThatIsGivenIsOpened) { EXPECT_TRUE(add("only_by_name").usable); }

TEST_F(LoaderTest, RefusedFromTheFileAloneWithoutRunningIt) {
  expect_refused("other_abi", "built for ABI 1 while this core speaks 2");
  expect_refused("wrong_magic", "wrong magic number");
  expect_refused("wrong_kind", "a plugin of kind 'codec', which is neither a transport nor a device");
  expect_refused("bad_name", "no proper name");
  expect_refused("no_info", "no symbol roda_plugin_info");
  for (const char* name : {"other_abi", "wrong_magic", "wrong_kind", "Bad Name", "no_info"}) {
    EXPECT_EQ(std::getenv((std::string("RODA_TEST_RAN_") + name).c_str()), nullptr) << name;
  }
}

TEST_F(LoaderTest, RefusedAfterOpening) {
  expect_refused("no_entry", "missing symbol roda_transport_v2");
  expect_refused("other_table_abi", "built for ABI 1 while this core speaks 2");
  expect_refused("two_names", "its file says 'two_names', its table 'another'");
  expect_refused("no_abort", "leaves group_abort empty");
  expect_refused("empty_promise", "promise collective_supported");
  expect_refused("too_short", "64 bytes is too short");
  expect_refused("unresolved", "roda_test_symbol_that_nobody_defines");
  expect_refused("failing_probe", "no wire is plugged in");
  EXPECT_NE(std::getenv("RODA_TEST_RAN_no_entry"), nullptr);
}

TEST_F(LoaderTest, DevicesAreFoundByTheirKindOfMemory) {
  EXPECT_EQ(loader_.device_for(RODA_MEMORY_CUDA), nullptr);
  expect_refused("device_broken", "no card is plugged in");
  expect_refused("device_too_short", "is too short");
  expect_refused("device_incomplete", "leaves pack empty");
  EXPECT_EQ(loader_.device_for(RODA_MEMORY_CUDA), nullptr);
  const PluginRecord& record = add("device");
  ASSERT_TRUE(record.usable) << record.reason;
  EXPECT_EQ(record.kind, "device");
  EXPECT_EQ(record.transport, nullptr);
  EXPECT_EQ(record.description, "computes nothing");
  EXPECT_EQ(loader_.device_for(RODA_MEMORY_CUDA), record.device);
  EXPECT_EQ(loader_.device_for(RODA_MEMORY_HOST), nullptr);
}

TEST_F(LoaderTest, AnOlderDeviceLacksWhatCameLater) {
  const PluginRecord& record = add("device_older");
  ASSERT_TRUE(record.usable) << record.reason;
  EXPECT_EQ(record.device->device_of, nullptr);
  EXPECT_NE(record.device->unpack, nullptr);
}

TEST_F(LoaderTest, OlderShorterTableIsFilledUpAndLosesWhatItLacks) {
  const PluginRecord& record = add("older");
  ASSERT_TRUE(record.usable) << record.reason;
  EXPECT_EQ(record.transport->struct_size, sizeof(roda_transport));
  EXPECT_EQ(record.transport->quiesced, nullptr);
  EXPECT_NE(record.transport->send, nullptr);
  EXPECT_EQ(record.transport->capabilities, static_cast<std::uint64_t>(RODA_CAP_P2P));
}

TEST_F(LoaderTest, FilesThatAreNoPlugins) {
  std::ofstream(folder_ / "text.so") << "this is not a library\n";
  std::ofstream(folder_ / "empty.so").flush();
  std::ofstream(folder_ / "notes.txt") << "ignored: not a .so\n";
  fs::create_directories(folder_ / "folder.so");
  loader_.scan({folder_.string(), (folder_ / "missing").string()});
  ASSERT_EQ(loader_.records().size(), 3u);
  EXPECT_EQ(loader_.find("empty")->reason, "not an ELF file");
  EXPECT_EQ(loader_.find("folder")->reason, "not a regular file");
  EXPECT_EQ(loader_.find("text")->reason, "not an ELF file");
}

TEST_F(LoaderTest, AFileCutAtAnyLengthIsRefusedInWords) {
  std::ifstream in(sample("good"), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  ASSERT_GT(whole.size(), 4096u);
  // Without its tail the section table, which lies at the end, is gone.
  for (std::size_t size = 0; size + 64 < whole.size(); size += 997) {
    const fs::path path = folder_ / ("cut" + std::to_string(size) + ".so");
    std::ofstream(path, std::ios::binary) << whole.substr(0, size);
    const PluginRecord& record = loader_.add(path.string());
    EXPECT_FALSE(record.usable) << size;
    EXPECT_FALSE(record.reason.empty()) << size;
  }
}

TEST_F(LoaderTest, DamagedFilesAreReadWithoutCrashing) {
  std::ifstream in(sample("good"), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  const fs::path path = folder_ / "damaged.so";
  int refused = 0;
  // Every byte of the header and of the segment table, then samples of the rest. Only the reader runs: what the dynamic
  // linker makes of such files is its own affair.
  for (std::size_t at = 0; at < whole.size(); at += at < 512 ? 1 : 61) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0xff);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
    roda_plugin_info_t info{};
    const Status status = read_plugin_info(path.string(), &info);
    EXPECT_EQ(status.ok(), status.message().empty()) << at;
    refused += status.ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 20);
}

TEST_F(LoaderTest, FirstOfANameWinsAndTheOthersSayByWhom) {
  const fs::path winner = place("good", "first", "b.so");
  place("good", "first", "c.so");
  place("good", "second", "a.so");
  loader_.scan({(folder_ / "first").string(), (folder_ / "second").string(), (folder_ / "first").string()});
  ASSERT_EQ(loader_.records().size(), 3u);  // a folder named twice is read once
  EXPECT_TRUE(loader_.find("sample")->usable);
  EXPECT_EQ(loader_.find("sample")->path, winner.string());
  EXPECT_EQ(loader_.records()[1]->reason, "shadowed by " + winner.string());
  EXPECT_EQ(loader_.records()[2]->reason, "shadowed by " + winner.string());
}

TEST_F(LoaderTest, ABrokenFileDoesNotShadowAGoodOne) {
  fs::create_directories(folder_ / "first");
  std::ofstream(folder_ / "first" / "roda_sample.so") << "text";
  place("good", "second", "roda_sample.so");
  loader_.scan({(folder_ / "first").string()});
  EXPECT_EQ(loader_.find("sample")->reason, "not an ELF file");
  loader_.scan({(folder_ / "second").string()});
  EXPECT_TRUE(loader_.find("sample")->usable);
}

TEST_F(LoaderTest, SearchPathStartsWithTheVariable) {
  ::setenv("HOROVOD_PLUGIN_PATH", "/one:/two::/three", 1);
  ::setenv("XDG_DATA_HOME", "/data", 1);
  const std::vector<std::string> path = Loader::search_path();
  ::unsetenv("HOROVOD_PLUGIN_PATH");
  ASSERT_GT(path.size(), 5u);
  EXPECT_EQ(path[0], "/one");
  EXPECT_EQ(path[1], "/two");
  EXPECT_EQ(path[2], "/three");
  const std::string here = fs::canonical("/proc/self/exe").parent_path().string();
  EXPECT_EQ(path[3], "/data/roda/plugins");
  EXPECT_EQ(path[4], here + "/roda/plugins");
  EXPECT_EQ(Loader::search_path()[0], "/data/roda/plugins");
  ::setenv("XDG_DATA_HOME", "relative", 1);
  ::setenv("HOME", "/user", 1);
  EXPECT_EQ(Loader::search_path()[0], "/user/.local/share/roda/plugins");
  ::unsetenv("HOME");
  EXPECT_EQ(Loader::search_path()[0], here + "/roda/plugins");
}

}  // namespace
}  // namespace roda::plugins
