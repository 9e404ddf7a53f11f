// run_ranks -n N [options] program args...: N ranks of one job on this machine, over the real rendezvous. Ends with 0
// when every rank ends with 0. The output of ranks other than 0 is shown when they fail.
//   --hosts H          the ranks believe to be on H hosts; --hosts 1,2,3: on hosts of so many
//   --dies R           rank R must be killed
//   --stops R          rank R stops itself; it is killed when the others have ended, or 10 s after that
//   --odd R NAME=TEXT  rank R's environment has this, too; --odd R PROGRAM (no '='): rank R runs another program
//   --twice R          rank R is started twice: one of the two must end with 3
//   --seconds S        as long as all of it may take
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "bindings/c/roda.h"

namespace {

struct Rank {
  pid_t pid = -1;
  FILE* output = nullptr;  // of ranks above 0
  int status = -1;
};

constexpr char kSecret[] = "a-secret-for-tests-only-0123456789";

struct Place {
  int host, local_rank, local_size, cross_rank, cross_size;
};

// Ranks of each host, which they fill one after the other. A single number H: H hosts, the first ones with one rank
// more when the numbers don't divide.
std::vector<int> host_sizes(const char* text, int size) {
  std::vector<int> sizes;
  std::istringstream numbers(text);
  for (std::string number; std::getline(numbers, number, ',');) sizes.push_back(atoi(number.c_str()));
  if (sizes.size() != 1) return sizes;
  const int hosts = sizes.front();
  sizes.clear();
  for (int host = 0; host < hosts; ++host) sizes.push_back(size / hosts + (host < size % hosts ? 1 : 0));
  return sizes;
}

Place place_of(int rank, const std::vector<int>& hosts) {
  Place p{0, rank, 0, 0, 0};
  while (p.local_rank >= hosts[static_cast<std::size_t>(p.host)]) {
    p.local_rank -= hosts[static_cast<std::size_t>(p.host++)];
  }
  p.local_size = hosts[static_cast<std::size_t>(p.host)];
  for (int host = 0; host < static_cast<int>(hosts.size()); ++host) {
    if (hosts[static_cast<std::size_t>(host)] <= p.local_rank) continue;
    if (host < p.host) ++p.cross_rank;
    ++p.cross_size;
  }
  return p;
}

// What one rank has of its own.
struct Odd {
  int rank = -1;
  const char* what = nullptr;
};

// Returns the program to run.
const char* apply(const std::vector<Odd>& odds, int rank, const char* program) {
  for (const Odd& odd : odds) {
    if (odd.rank != rank) continue;
    const char* equals = strchr(odd.what, '=');
    if (equals == nullptr) {
      program = odd.what;
    } else {
      setenv(std::string(odd.what, equals).c_str(), equals + 1, 1);
    }
  }
  return program;
}

Rank start(int rank, int size, const std::vector<int>& hosts, int port, const std::vector<Odd>& odds, char** command) {
  Rank r;
  if (rank != 0) r.output = tmpfile();
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) exit(2);
  // Before there is a rank that might end without reading it.
  const bool sent = write(pipe_ends[1], kSecret, sizeof kSecret - 1) == static_cast<ssize_t>(sizeof kSecret - 1);
  if (!sent) exit(2);
  r.pid = fork();
  if (r.pid == 0) {
    auto set = [](const char* name, int value) { setenv(name, std::to_string(value).c_str(), 1); };
    set("HOROVOD_RANK", rank);
    set("HOROVOD_SIZE", size);
    const Place place = place_of(rank, hosts);
    set("HOROVOD_LOCAL_RANK", place.local_rank);
    set("HOROVOD_LOCAL_SIZE", place.local_size);
    set("HOROVOD_CROSS_RANK", place.cross_rank);
    set("HOROVOD_CROSS_SIZE", place.cross_size);
    if (hosts.size() > 1) setenv("HOROVOD_HOSTNAME", ("host" + std::to_string(place.host)).c_str(), 1);
    set("HOROVOD_GLOO_RENDEZVOUS_PORT", port);
    set("HOROVOD_SECRET_FD", pipe_ends[0]);
    setenv("HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1", 1);
    close(pipe_ends[1]);
    if (r.output != nullptr) {
      dup2(fileno(r.output), STDOUT_FILENO);
      dup2(fileno(r.output), STDERR_FILENO);
    }
    execv(apply(odds, rank, command[0]), command);
    _exit(127);
  }
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  return r;
}

void show(const Rank& rank, int number) {
  if (rank.output == nullptr) return;
  fprintf(stderr, "--- rank %d:\n", number);
  rewind(rank.output);
  char line[4096];
  while (fgets(line, sizeof line, rank.output) != nullptr) fputs(line, stderr);
}

}  // namespace

int main(int argc, char** argv) {
  int size = 2;
  const char* host_text = "1";
  int dies = -1;
  int twice = -1;
  std::vector<Odd> odds;
  int seconds = 120;
  int at = 1;
  for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
    if (strcmp(argv[at], "-n") == 0) size = atoi(argv[at + 1]);
    if (strcmp(argv[at], "--hosts") == 0) host_text = argv[at + 1];
    if (strcmp(argv[at], "--dies") == 0 || strcmp(argv[at], "--stops") == 0) dies = atoi(argv[at + 1]);
    if (strcmp(argv[at], "--twice") == 0) twice = atoi(argv[at + 1]);
    if (strcmp(argv[at], "--odd") == 0) odds.push_back({atoi(argv[at + 1]), argv[at + 2]}), ++at;
    if (strcmp(argv[at], "--seconds") == 0) seconds = atoi(argv[at + 1]);
  }
  const std::vector<int> hosts = host_sizes(host_text, size);
  if (std::accumulate(hosts.begin(), hosts.end(), 0) != size) {
    fprintf(stderr, "run_ranks: --hosts %s is not -n %d\n", host_text, size);
    return 2;
  }
  roda_rendezvous* server = nullptr;
  int port = 0;
  roda_error error{};
  error.struct_size = sizeof error;
  if (roda_rendezvous_start("", 0, kSecret, sizeof kSecret - 1, &server, &port, &error) != RODA_OK) {
    fprintf(stderr, "run_ranks: %s\n", error.message);
    return 2;
  }
  std::vector<Rank> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(start(r, size, hosts, port, odds, argv + at));
  if (twice >= 0) ranks.push_back(start(twice, size, hosts, port, odds, argv + at));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  int left = static_cast<int>(ranks.size());
  pid_t stopped = -1;
  auto end_of_stop = deadline;
  int refused = 0;
  bool failed = false;
  while (left > 0) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED);
    if (pid > 0 && WIFSTOPPED(status)) {
      stopped = pid;
      end_of_stop = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      continue;
    }
    if (stopped > 0 && (left == 1 || std::chrono::steady_clock::now() > end_of_stop)) {
      kill(std::exchange(stopped, -1), SIGKILL);
    }
    if (pid == 0) {
      if (std::chrono::steady_clock::now() > deadline) {
        fprintf(stderr, "run_ranks: %d rank(s) still ran after %d s\n", left, seconds);
        for (Rank& r : ranks) kill(r.pid, SIGKILL);
        failed = true;
      }
      usleep(2000);
      continue;
    }
    for (int i = 0; i < static_cast<int>(ranks.size()); ++i) {
      Rank& rank = ranks[static_cast<std::size_t>(i)];
      const int r = i < size ? i : twice;
      if (rank.pid != pid) continue;
      --left;
      const bool as_expected = r == dies ? WIFSIGNALED(status) : (WIFEXITED(status) && WEXITSTATUS(status) == 0);
      if (as_expected) continue;
      if (r == twice && WIFEXITED(status) && WEXITSTATUS(status) == 3 && ++refused == 1) continue;
      failed = true;
      fprintf(stderr, "run_ranks: rank %d ended with status 0x%x\n", r, status);
      show(rank, r);
    }
  }
  roda_rendezvous_stop(server);
  if (twice >= 0 && refused == 0) fprintf(stderr, "run_ranks: rank %d was started twice, and neither refused\n", twice);
  return failed || (twice >= 0 && refused == 0) ? 1 : 0;
}
