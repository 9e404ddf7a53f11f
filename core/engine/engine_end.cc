// How an engine ends: with all ranks in order, or with the first cause of a failure.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "core/engine/engine.h"
#include "plugins/base/format.h"
#include "plugins/base/log.h"

namespace roda::engine {

// Every operation ends with the first cause. Stages are ended first: what they touch belongs to the callers again then.
void Engine::fail(const Status& cause) {
  if (!ending_.cause.ok()) return;
  ending_.cause = Status(cause.code(), "Horovod has been shut down. The cause: " + cause.message(), cause.rank());
  // The program of a rank that can't go on has said why, and the others' errors quote it.
  const bool is_told = cause.code() == RODA_ERR_ABORTED && cause.rank() >= 0;
  if (is_told) {
    RODA_LOG(info, "{}", ending_.cause.message());
  } else {
    RODA_LOG(error, "{}", ending_.cause.message());
  }
  const std::vector<Operation*> not_launched = submissions_.close(ending_.cause);
  save_flight(cause);
  // Before anybody learns of the error, and may leave the process with it.
  const bool tells = parts_.bootstrap != nullptr && parts_.bootstrap->peer_lost != nullptr;
  if (tells && cause.code() == RODA_ERR_PEER) parts_.bootstrap->peer_lost(parts_.host, cause.rank());
  const auto timeout = std::chrono::duration<double>(parts_.knobs.abort_timeout_seconds);
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout);
  if (const LaunchRun* left = launcher_.abort(cause, deadline)) {
    RODA_LOG(error, "{} could not be ended in HOROVOD_ABORT_TIMEOUT_SECONDS; its buffers may still be written to",
             left->describe());
  }
  submissions_.end(not_launched, ending_.cause);
  submissions_.end_all(ending_.cause);
  stopped_.store(true, std::memory_order_release);
  parts_.control->depart();
  baton_.pulse();
}

void Engine::save_flight(const Status& cause) const {
  const std::string& folder = parts_.knobs.flight_folder;
  if (folder.empty()) return;
  if (const Status s = observe::dump_flight(parts_.control->rooms(), folder, cause); !s.ok()) {
    RODA_LOG(warning, "The flight recorder: {}", s.message());
  }
}

// The baton's holder does not come back from the transport, so that this thread may use the engine's state.
void Engine::give_up(const char* transport) {
  static_cast<void>(parts_.control->service(true));  // other hosts may have sent the cause
  const Status cause = parts_.control->abort_cause();
  if (cause.ok()) return;
  save_flight(cause);
  RODA_LOG(error,
           "Horovod has been shut down. The cause: {} This process ends with status 1: a call of {} that was under way "
           "has not returned for {} s since (twice HOROVOD_ABORT_TIMEOUT_SECONDS), and a thread can't be taken out of "
           "that library.",
           cause.message(), transport, 2 * parts_.knobs.abort_timeout_seconds);
  parts_.control->depart();
  std::fflush(nullptr);
  ::_exit(EXIT_FAILURE);
}

void Engine::broken(const std::string& sentence) {
  const Status cause(RODA_ERR_UNKNOWN, roda::format("Rank {}: {}", parts_.rank, sentence), parts_.rank);
  const std::string& folder = parts_.knobs.flight_folder;
  const char* const temporary = std::getenv("TMPDIR");
  const std::string place = !folder.empty() ? folder : temporary != nullptr ? temporary : "/tmp";
  if (const Status s = observe::dump_flight(parts_.control->rooms(), place, cause); !s.ok()) {
    RODA_LOG(warning, "The flight recorder: {}", s.message());
  } else {
    RODA_LOG(error, "The flight recorder of this host's ranks is saved in {}", place);
  }
  parts_.control->abort(cause);
  parts_.control->depart();
}

std::optional<bool> Engine::await_process_end(std::int32_t rank, std::int64_t limit_us) const {
  if (rank < 0 || rank >= parts_.topology.size()) return true;
  return parts_.control->await_process_end(rank, limit_us);
}

// --- what the log says of it ----------------------------------------------------------------------------------------

void Engine::shutdown(std::int32_t rank, const std::string& how) {
  news_for_others_ = true;
  ending_.is_asked = true;
  const Status status(RODA_ERR_UNKNOWN,
                      roda::format("Horovod has been shut down. The cause: rank {} {}, so operations that not every "
                                   "rank had submitted by then can't be done.",
                                   rank, how),
                      rank);
  end_operations(submissions_.close(status), status);
}

void Engine::all_drained() {
  news_for_others_ = true;
  stopped_.store(true, std::memory_order_release);
  parts_.control->depart();
  baton_.pulse();
}

}  // namespace roda::engine
