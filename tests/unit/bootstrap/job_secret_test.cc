
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/bootstrap/rendezvous.h"

namespace roda {
namespace {

const std::string kText = "0123456789abcdef0123456789abcdef";

std::string text_of(const Secret& secret) { return {secret.bytes().begin(), secret.bytes().end()}; }

class JobSecretTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "roda-secret-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write_file(const std::string& text, mode_t mode) {
    std::string path = folder_ / "secret";
    std::filesystem::remove(path);
    std::ofstream(path) << text;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  std::filesystem::path folder_;
};

int pipe_with(const std::string& text) {
  int fds[2];
  EXPECT_EQ(::pipe(fds), 0);
  EXPECT_EQ(::write(fds[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ::close(fds[1]);
  return fds[0];
}

TEST_F(JobSecretTest, FileOfItsOwnerAloneIsRead) {
  for (mode_t mode : {0600, 0400}) {
    Secret secret;
    Status status = read_secret_file(write_file(kText + "\n", mode), &secret);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(text_of(secret), kText);
  }
}

// A launcher's secret is random bytes, and one in 256 ends like a line.
TEST_F(JobSecretTest, WhatADescriptorHoldsIsTakenAsItIs) {
  const std::string text = kText + "\n";
  Secret secret;
  const Status status = read_secret_fd(pipe_with(text), &secret);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(text_of(secret), text);
}

TEST_F(JobSecretTest, OtherFilesAreRefusedWithTheReason) {
  Secret secret;
  for (mode_t mode : {0640, 0604, 0620, 0700, 0666}) {
    Status status = read_secret_file(write_file(kText, mode), &secret);
    EXPECT_EQ(status.code(), RODA_ERR_AUTH) << mode;
    EXPECT_NE(status.message().find("chmod 600"), std::string::npos);
  }
  EXPECT_NE(read_secret_file(folder_ / "none", &secret).message().find("No such file"), std::string::npos);
  EXPECT_NE(read_secret_file(folder_, &secret).message().find("not a regular file"), std::string::npos);
  std::string fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_NE(read_secret_file(fifo, &secret).message().find("not a regular file"), std::string::npos);
  EXPECT_NE(read_secret_file(write_file("short", 0600), &secret).message().find("has 5 bytes"), std::string::npos);
  EXPECT_EQ(read_secret_file(write_file(std::string(Secret::kMaxBytes + 1, 'x'), 0600), &secret).code(), RODA_ERR_AUTH);
  EXPECT_TRUE(read_secret_file(write_file(std::string(Secret::kMaxBytes, 'x') + "\n", 0600), &secret).ok());
}

TEST_F(JobSecretTest, SomebodyElsesFileIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  std::string path = write_file(kText, 0600);
  ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  Secret secret;
  Status status = read_secret_file(path, &secret);
  EXPECT_EQ(status.code(), RODA_ERR_AUTH);
  EXPECT_NE(status.message().find("belongs to user 12345"), std::string::npos);
}

TEST_F(JobSecretTest, APipeIsReadOnceAndKept) {
  Knobs knobs;
  knobs.secret_fd = pipe_with(kText);
  Secret first, second;
  ASSERT_TRUE(load_secret(knobs, &first).ok());
  EXPECT_EQ(text_of(first), kText);
  EXPECT_EQ(::fcntl(knobs.secret_fd, F_GETFD), -1);  // closed
  ASSERT_TRUE(load_secret(knobs, &second).ok());
  EXPECT_EQ(text_of(second), kText);
}

TEST_F(JobSecretTest, FileBeforePipeBeforeLegacyName) {
  Knobs knobs;
  Secret secret;
  EXPECT_EQ(load_secret(knobs, &secret).code(), RODA_ERR_AUTH);
  knobs.legacy_secret = "c2l4dGVlbiBieXRlcyEhIQ==";  // "sixteen bytes!!!"
  ASSERT_TRUE(load_secret(knobs, &secret).ok());
  EXPECT_EQ(text_of(secret), "sixteen bytes!!!");
  knobs.secret_file = write_file("file" + kText, 0600);
  ASSERT_TRUE(load_secret(knobs, &secret).ok());
  EXPECT_EQ(text_of(secret), "file" + kText);
  // A program that a rank started knows the number of a descriptor that is not its own: it must be left alone.
  knobs.secret_fd = ::fcntl(pipe_with("pipe" + kText), F_DUPFD, 100);  // no number that was read before
  ASSERT_TRUE(load_secret(knobs, &secret).ok());
  EXPECT_EQ(text_of(secret), "file" + kText);
  EXPECT_NE(::fcntl(knobs.secret_fd, F_GETFD), -1);
  knobs.secret_file = folder_ / "none";
  ASSERT_TRUE(load_secret(knobs, &secret).ok());
  EXPECT_EQ(text_of(secret), "pipe" + kText);
}

TEST_F(JobSecretTest, WhereNeitherFileNorDescriptorCanBeReadTheErrorNamesBoth) {
  Knobs knobs;
  Secret secret;
  knobs.secret_file = folder_ / "none";
  knobs.secret_fd = 12345;
  const Status status = load_secret(knobs, &secret);
  EXPECT_EQ(status.code(), RODA_ERR_AUTH);
  EXPECT_NE(status.message().find("No such file"), std::string::npos);
  EXPECT_NE(status.message().find("HOROVOD_SECRET_FD=12345"), std::string::npos);
}

TEST_F(JobSecretTest, MalformedBase64NeverShowsItself) {
  Secret secret;
  for (const char* text : {"not base64 at all!", "c2hvcnQ=", ""}) {
    Status status = decode_base64(text, &secret);
    EXPECT_EQ(status.code(), RODA_ERR_AUTH);
    EXPECT_EQ(status.message(), "_HOROVOD_SECRET_KEY: expected base64 of 16 to 4096 bytes");
  }
}

TEST_F(JobSecretTest, GeneratedSecretsDifferAndArePrintable) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    Secret secret;
    ASSERT_TRUE(generate_secret(&secret).ok());
    std::string text = text_of(secret);
    EXPECT_EQ(text.size(), 64u);
    EXPECT_EQ(text.find_first_not_of("0123456789abcdef"), std::string::npos);
    EXPECT_TRUE(seen.insert(text).second);
  }
}

TEST_F(JobSecretTest, OpenStoreSaysWhatIsMissing) {
  Secret secret;
  std::unique_ptr<Store> store;
  Knobs knobs;
  ASSERT_TRUE(open_store(knobs, &secret, &store).ok());
  EXPECT_TRUE(secret.is_long_enough());
  EXPECT_TRUE(store->put("k", "v").ok());
  knobs.size = 4;
  EXPECT_NE(open_store(knobs, &secret, &store).message().find("HOROVOD_SIZE=4 but no rendezvous"), std::string::npos);
  knobs.rendezvous_addr = "127.0.0.1";
  EXPECT_NE(open_store(knobs, &secret, &store).message().find("without HOROVOD_GLOO_RENDEZVOUS_PORT"),
            std::string::npos);
  knobs.rendezvous_port = 1;
  EXPECT_NE(open_store(knobs, &secret, &store).message().find("HOROVOD_SECRET_FILE"), std::string::npos);
}

}  // namespace
}  // namespace roda
