// Who comes before whom on the CUDA double: vector clocks of its streams and of the host, kept when work is put on a
// stream, not when it runs. So an access that nothing orders is an error each time, however the threads run.
//
// The host has two sides: the engine, which orders its own threads, and the program, which tests declare (double.h).
// What the program has seen the engine may rely on; the reverse holds only where the program waits for the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace roda::cuda_double {

using Actor = std::size_t;
inline constexpr Actor kEngine = 0;
inline constexpr Actor kProgram = 1;  // streams are numbered from 2 on

// How far each actor had come, as far as is known at one point. A value.
class Clock {
 public:
  std::uint64_t of(Actor actor) const { return actor < times_.size() ? times_[actor] : 0; }
  bool covers(const Clock& other) const;
  void join(const Clock& other);
  std::uint64_t tick(Actor actor);

 private:
  std::vector<std::uint64_t> times_;
};

// One piece of work, or one call of the host's.
struct Access {
  Actor actor = kEngine;
  std::uint64_t time = 0;
  const char* what = "";
};

// What runs on this thread: work of a stream, else a call of the host's.
struct Work {
  Access self;
  Clock clock;
  int device = -1;  // whose memory alone it may touch; -1: any
};

// Any thread.
class Order {
 public:
  static Order& get();

  Actor add_stream();
  // This thread puts work on the stream.
  Work put(Actor stream, const char* what, int device);
  // The stream waits for that. What this thread knows does not count: it would by luck stand in for a missing wait.
  void wait(Actor stream, const Clock& event);
  // What the stream holds by now.
  Clock reached(Actor stream);
  // The same of an event that this thread records, which is behind what the thread knows, too; `early`: and without the
  // last piece of work.
  Clock recorded(Actor stream, bool early);
  // This thread knows that what came before is over.
  void observe(const Clock& clock);
  bool is_observed(const Clock& clock);
  // The program has waited for the engine.
  void join_sides();
  // The work that runs on this thread, or a new call of its side of the host.
  Work here(const char* what);
  // Work on one thing that the same work of every stream uses in turn: a communicator.
  void take_turn(const void* thing, const char* what);
  // The work that runs on this thread copies between a device's memory and the host's.
  void copies() { count_overlaps(here(""), true); }
  // As roda_cuda_double_overlaps().
  unsigned overlaps(bool counts);

 private:
  void count_overlaps(const Work& work, bool copies);
  struct Stream {
    Clock clock, before;
  };
  std::mutex guard_;
  Clock sides_[2];               // guarded, like the rest
  std::vector<Stream> streams_;  // by actor, from 2 on
  std::map<const void*, Access> last_turns_;
  bool counts_overlaps_ = false;
  unsigned overlaps_ = 0;
  std::vector<Work> turns_, copies_;  // since they are counted
};

Actor& side_of_thread();
// Set while work of a stream runs on this thread.
const Work*& running();

// "cuMemcpyAsync on stream 3", "a call of the engine's"
std::string describe(const Access& access);
// Prints the mistake and ends the process, or keeps it for a test that asked for that.
void report(const std::string& mistake);

// Mistakes that tests seed, by leaving out what would order; see double.h.
bool is_left_out(int fault, bool is_needed);

}  // namespace roda::cuda_double
