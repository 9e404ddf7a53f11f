// init_dies VICTIM kill|stop MICROSECONDS: rank VICTIM is killed or stopped so long after it has come to the job. The
// others' init, or their first operation, must end with an error that names it.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "bindings/c/roda.h"
#include "core/bootstrap/rendezvous.h"
#include "tests/multi/engine/one_operation.h"

namespace {

constexpr char kSecret[] = "a-secret-for-tests-only-0123456789";  // run_ranks'

// A rank has come to the job once its claim to its number is there.
void end_after_coming(int rank, int signal, int microseconds) {
  std::unique_ptr<roda::Store> store;
  const auto* secret = reinterpret_cast<const std::uint8_t*>(kSecret);
  const roda::Status status =
      roda::connect_store("127.0.0.1", std::atoi(std::getenv("HOROVOD_GLOO_RENDEZVOUS_PORT")),
                          roda::Secret(std::span(secret, sizeof kSecret - 1)), std::chrono::seconds(20), &store);
  std::string owner;
  if (!status.ok() ||
      !store->wait("roda/1/owner/" + std::to_string(rank), roda::Store::Clock::now() + std::chrono::seconds(20), &owner)
           .ok()) {
    std::_Exit(4);
  }
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
  kill(getpid(), signal);
}

int be_victim(int rank, bool is_stopped, int microseconds) {
  std::thread(end_after_coming, rank, is_stopped ? SIGSTOP : SIGKILL, microseconds).detach();
  roda_error error{};
  error.struct_size = sizeof error;
  roda_init(nullptr, &error);
  for (;;) pause();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int victim = std::atoi(argv[1]), rank = std::atoi(std::getenv("HOROVOD_RANK"));
  const bool is_stopped = std::strcmp(argv[2], "stop") == 0;
  if (rank == victim) return be_victim(rank, is_stopped, std::atoi(argv[3]));
  roda_error error{};
  error.struct_size = sizeof error;
  error.rank = -1;
  const bool began = roda_init(nullptr, &error) == RODA_OK;
  if (began && is_stopped) return 0;  // it came that far: its connections are watched from now on
  float data = 1;
  const int code = began ? roda::test::add_up(&data, &error) : error.code;
  const std::string name = "ank " + std::to_string(victim);
  std::fprintf(stderr, "init_dies: %s: rank %d: %s\n", began ? "operation" : "init", error.rank, error.message);
  return code != RODA_OK && error.rank == victim && std::strstr(error.message, name.c_str()) != nullptr ? 0 : 1;
}
