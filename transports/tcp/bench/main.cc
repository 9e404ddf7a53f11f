// Messages between two ranks: bare sockets and any plugins, in turns, so that a busy machine hits all alike.
//
//   tcp_bench ADDRESS [-n NETNS0,NETNS1] [-r ROUNDS] [-s BYTES] PLUGIN.so...
//
// ADDRESS is rank 0's, for the bare sockets. With -n each rank enters its network namespace (`ip netns add`) first.
// Times are of one message one way, and of a swap, in microseconds: the median of the rounds.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "transports/tcp/bench/contestant.h"

namespace roda::tcp_bench {

void give_up(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::_Exit(1);
}

namespace {

constexpr std::size_t kSizes[] = {4,         64,      1024,    8 << 10,  32 << 10, 64 << 10,
                                  256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};

struct Options {
  std::string address;
  std::string namespaces[2];
  int rounds = 15;
  std::size_t only = 0;
  std::vector<std::string> plugins;
};

struct Entrant {
  std::string name;
  std::unique_ptr<Contestant> end;
  std::vector<double> one_way;
  std::vector<double> both;
};

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double>& times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void measure(Board& board, Entrant& entrant, int rank, std::vector<char>& out, std::vector<char>& in, int times) {
  Contestant& end = *entrant.end;
  board.meet();
  double start = now_us();
  for (int i = 0; i < times; ++i) {
    if (rank == 0) end.send(out.data(), out.size());
    end.receive(in.data(), in.size());
    if (rank == 1) end.send(out.data(), out.size());
  }
  entrant.one_way.push_back((now_us() - start) / times / 2);
  board.meet();
  start = now_us();
  for (int i = 0; i < times; ++i) end.swap(out.data(), in.data(), out.size());
  entrant.both.push_back((now_us() - start) / times);
}

void work(Board& board, const Options& options, int rank) {
  const std::string& place = options.namespaces[rank];
  if (!place.empty()) {
    const int fd = ::open(("/run/netns/" + place).c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || ::setns(fd, CLONE_NEWNET) != 0) give_up("can't enter network namespace " + place);
    ::close(fd);
  }
  std::vector<Entrant> all;
  all.push_back({"bare sockets", make_raw(board, rank, options.address), {}, {}});
  for (std::size_t i = 0; i < options.plugins.size(); ++i) {
    const std::string& path = options.plugins[i];
    const std::string name = path.substr(path.rfind('/') + 1);
    all.push_back({name, make_plugin(board, rank, path, name + std::to_string(i)), {}, {}});
  }
  for (const std::size_t bytes : kSizes) {
    if (options.only != 0 && bytes != options.only) continue;
    std::vector<char> out(bytes, 'o'), in(bytes, 'i');
    const int times = static_cast<int>(std::clamp<std::size_t>((8 << 20) / (bytes + 8192), 1, 500));
    for (Entrant& entrant : all) entrant.one_way.clear(), entrant.both.clear();
    for (int round = 0; round < options.rounds; ++round) {
      for (Entrant& entrant : all) measure(board, entrant, rank, out, in, times);
    }
    for (Entrant& entrant : all) {
      if (rank != 0) continue;
      const double one_way = median(entrant.one_way), both = median(entrant.both);
      std::printf("%9zu bytes %-16s one way %9.1f us %7.2f GB/s   swap %9.1f us %7.2f GB/s each way\n", bytes,
                  entrant.name.c_str(), one_way, static_cast<double>(bytes) / one_way / 1000, both,
                  static_cast<double>(bytes) / both / 1000);
    }
  }
  board.meet();
}

int run(const Options& options) {
  void* at = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return 1;
  auto* board = new (at) Board{};
  pid_t children[2];
  for (int rank = 0; rank < 2; ++rank) {
    children[rank] = ::fork();
    if (children[rank] != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    work(*board, options, rank);
    std::fflush(stdout);
    ::_exit(0);
  }
  int failed = 0;
  for (int i = 0; i < 2; ++i) {
    int status = 0;
    const pid_t ended = ::wait(&status);
    failed |= status;
    if (status != 0) ::kill(children[0] == ended ? children[1] : children[0], SIGKILL);
  }
  return failed != 0;
}

}  // namespace
}  // namespace roda::tcp_bench

int main(int argc, char** argv) {
  roda::tcp_bench::Options options;
  for (int letter; (letter = ::getopt(argc, argv, "n:r:s:")) != -1;) {
    const std::string text = ::optarg != nullptr ? ::optarg : "";
    if (letter == 'n') {
      options.namespaces[0] = text.substr(0, text.find(','));
      options.namespaces[1] = text.substr(text.find(',') + 1);
    } else if (letter == 'r') {
      options.rounds = std::max(1, std::atoi(text.c_str()));
    } else if (letter == 's') {
      options.only = std::strtoull(text.c_str(), nullptr, 10);
    }
  }
  if (::optind >= argc) {
    std::fprintf(stderr, "usage: tcp_bench ADDRESS [-n NETNS0,NETNS1] [-r ROUNDS] [-s BYTES] PLUGIN.so...\n");
    return 2;
  }
  options.address = argv[::optind];
  options.plugins.assign(argv + ::optind + 1, argv + argc);
  return roda::tcp_bench::run(options);
}
