#include "core/observe/process_line.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>

namespace roda::observe {
namespace {

int stack = -1;

// As Python's fault handler does.
void write_stack(int) {
  const char* text =
      "Current thread 0x1 (most recent call first):\n"
      "  File \"/lib/python3.11/queue.py\", line 171 in get\n"
      "  File \"/users/me/train, two.py\", line 57 in load\n"
      "  File \"/users/me/main.py\", line 3 in <module>\n";
  [[maybe_unused]] const auto count = ::write(stack, text, std::strlen(text));
}

TEST(ProcessLine, IsTheProgramsInnermost) {
  std::string path = testing::TempDir() + "roda-stack-XXXXXX";
  stack = ::mkostemp(path.data(), O_APPEND);
  ASSERT_GE(stack, 0);
  ASSERT_EQ(::unlink(path.c_str()), 0);
  const auto before = std::signal(SIGURG, write_stack);
  EXPECT_EQ(where_process_is(::getpid()), ", and is at /users/me/train, two.py:57");
  EXPECT_EQ(where_process_is(::getpid()), ", and is at /users/me/train, two.py:57") << "again";
  std::signal(SIGURG, before);
  ::close(stack);
  EXPECT_EQ(where_process_is(::getpid()), "") << "it offers none";
}

TEST(ProcessLine, SaysWhatStateAProcessIsIn) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (;;) ::pause();
  }
  int status = 0;
  ::kill(child, SIGSTOP);
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  EXPECT_EQ(where_process_is(child), ", and its process is stopped");
  ::kill(child, SIGKILL);
  ::siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(where_process_is(child), ", and its process is gone") << "nobody has asked how it ended yet";
  ::waitpid(child, &status, 0);
  EXPECT_EQ(where_process_is(child), ", and its process is gone");
}

}  // namespace
}  // namespace roda::observe
