#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace roda {

// What `check` says in a forked child. By a pipe: the thread sanitizer changes the exit status of such children.
template <typename Check>
bool in_child(Check check) {
  int answer[2];
  EXPECT_EQ(::pipe2(answer, O_CLOEXEC), 0);
  pid_t child = ::fork();
  if (child == 0) {
    char yes = check() ? 1 : 0;
    ::_exit(::write(answer[1], &yes, 1) == 1 ? 0 : 1);
  }
  ::close(answer[1]);
  char yes = 0;
  EXPECT_EQ(::read(answer[0], &yes, 1), 1);
  ::close(answer[0]);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  return yes == 1;
}

}  // namespace roda
