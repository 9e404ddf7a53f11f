#include "tools/perf/launch.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>

#include "bindings/c/roda.h"

namespace roda::perf {

namespace {

using Environment = std::map<std::string, std::string>;

constexpr int kSecretDescriptor = 3;  // in the rank

struct StopServer {
  void operator()(roda_rendezvous* server) const { roda_rendezvous_stop(server); }
};
using Server = std::unique_ptr<roda_rendezvous, StopServer>;

// 32 random bytes as text; empty on failure.
std::string make_secret() {
  unsigned char bytes[32];
  if (getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) return "";
  std::string text;
  for (const unsigned char byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

Environment current_environment() {
  Environment result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (const char* equals = std::strchr(*entry, '='))
      result[std::string(static_cast<const char*>(*entry), equals)] = equals + 1;
  }
  return result;
}

Environment rank_environment(int rank, const CommandLine& options, int port) {
  Environment result = current_environment();
  const int local = options.ranks / options.hosts, host = rank / local;
  result["HOROVOD_RANK"] = std::to_string(rank);
  result["HOROVOD_SIZE"] = std::to_string(options.ranks);
  result["HOROVOD_LOCAL_RANK"] = std::to_string(rank % local);
  result["HOROVOD_LOCAL_SIZE"] = std::to_string(local);
  result["HOROVOD_CROSS_RANK"] = std::to_string(host);
  result["HOROVOD_CROSS_SIZE"] = std::to_string(options.hosts);
  if (options.hosts > 1) result["HOROVOD_HOSTNAME"] = "host" + std::to_string(host);
  result["HOROVOD_GLOO_RENDEZVOUS_ADDR"] = "127.0.0.1";
  result["HOROVOD_GLOO_RENDEZVOUS_PORT"] = std::to_string(port);
  result["HOROVOD_SECRET_FD"] = std::to_string(kSecretDescriptor);
  result["HOROVOD_SECRET_FILE"] = "";
  return result;
}

std::vector<char*> pointers(std::vector<std::string>* texts) {
  std::vector<char*> result;
  for (std::string& text : *texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// The read end of a pipe that holds the secret, or -1.
int secret_pipe(const std::string& secret) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  const bool written = write(ends[1], secret.data(), secret.size()) == static_cast<ssize_t>(secret.size());
  close(ends[1]);
  if (written) return ends[0];
  close(ends[0]);
  return -1;
}

// The new process, or -1.
pid_t start_rank(const Environment& environment, const std::vector<std::string>& arguments, const std::string& secret) {
  std::vector<std::string> command = {"roda-perf"}, variables;
  command.insert(command.end(), arguments.begin(), arguments.end());
  for (const auto& [name, value] : environment) variables.push_back(std::string(name).append("=").append(value));
  const int pipe_end = secret_pipe(secret);
  if (pipe_end < 0) return -1;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_end, kSecretDescriptor);
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, pointers(&command).data(), pointers(&variables).data());
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_end);
  return error == 0 ? pid : -1;
}

int exit_code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

void end_all(const std::map<pid_t, int>& running) {
  for (const auto& [pid, rank] : running) kill(pid, SIGTERM);
}

// Waits for every rank; the first failure ends the rest.
int wait_for_all(std::map<pid_t, int> running) {
  int result = 0;
  while (!running.empty()) {
    int status = 0;
    const pid_t pid = wait(&status);
    const auto ended = running.find(pid);
    if (ended == running.end()) continue;
    const int code = exit_code_of(status);
    if (code != 0 && result == 0) {
      result = code;
      std::fprintf(stderr, "roda-perf: rank %d ended with %d\n", ended->second, code);
      end_all(running);
    }
    running.erase(ended);
  }
  return result;
}

}  // namespace

int run_ranks(const CommandLine& options, const std::vector<std::string>& arguments, roda_traffic* store) {
  const std::string secret = make_secret();
  roda_error error{};
  error.struct_size = sizeof error;
  roda_rendezvous* started = nullptr;
  int port = 0;
  if (roda_rendezvous_start("", 0, secret.data(), secret.size(), &started, &port, &error) != RODA_OK) {
    std::fprintf(stderr, "roda-perf: no rendezvous: %s\n", error.message);
    return 1;
  }
  const Server server(started);
  std::map<pid_t, int> running;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t pid = start_rank(rank_environment(rank, options, port), arguments, secret);
    if (pid < 0) {
      std::fprintf(stderr, "roda-perf: rank %d could not be started\n", rank);
      end_all(running);
      wait_for_all(running);
      return 1;
    }
    running[pid] = rank;
  }
  const int result = wait_for_all(running);
  roda_rendezvous_traffic(started, store);
  return result;
}

void end_with_parent() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == 1) _exit(1);  // it was gone before
}

}  // namespace roda::perf
