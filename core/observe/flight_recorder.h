// What this rank asked for last, and how far each of it came: always on, in memory of a fixed size that other processes
// of the job and tools read while this one runs, hangs or is gone. docs/observing.md says how; horovod/observe reads
// the same layout, so a change here is one there, with another tag.
//
// Times are CoarseClock's: a few milliseconds fine, and cheap enough for every operation. One clock for a host.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "plugins/base/coarse_clock.h"
#include "plugins/base/status.h"

namespace roda::observe {

// Layout in memory: a header, then entries in a ring.
struct FlightHeader {
  char tag[8];  // "rodaflt3" once the rest is there
  std::uint32_t entries;
  std::uint32_t entry_bytes;
  std::int32_t rank;
  std::int32_t size;
  std::int32_t pid;
  std::atomic<std::int32_t> is_dumped;  // of the host's first rank: somebody writes the host's dump
  std::uint64_t generation;
  std::int64_t wall_offset;  // ns to add to times for those since 1970
  std::int64_t started;
  std::atomic<std::uint64_t> last;  // number of the latest entry; they begin with 1
  std::atomic<std::uint64_t> ended;
  std::atomic<std::uint64_t> ended_bytes;
  char host[64];
  char transports[64];  // in use, with spaces between them
  // At which line of the program this rank waits, as text; see note_line. The number is odd while that is written.
  std::atomic<std::uint64_t> line_number;
  static constexpr std::size_t kLineWords = 37;
  std::atomic<std::uint64_t> line[kLineWords];
};
static_assert(sizeof(FlightHeader) == 512);

// One operation. Times in ns, 0: not yet. Number 0: it is being written.
struct FlightEntry {
  std::atomic<std::uint64_t> number;
  std::int64_t submitted;
  std::atomic<std::int64_t> agreed;
  std::atomic<std::int64_t> launched;
  std::atomic<std::int64_t> ended;
  std::uint64_t bytes;
  std::int32_t set;
  std::atomic<std::int32_t> code;  // of the error that it ended with
  // The first of the ranks that have not submitted it, as far as was looked, and how many there are; -1, 0: not known.
  // Once all have, the rank that came last, and 0.
  std::atomic<std::int32_t> awaited_rank;
  std::atomic<std::int32_t> missing_count;
  std::uint8_t collective;
  std::uint8_t dtype;
  std::uint8_t name_bytes;
  std::uint8_t is_cut;  // the name's end alone is there
  char name[60];
};
static_assert(sizeof(FlightEntry) == 128);

// Owned by the holder of the baton.
class FlightRecorder {
 public:
  static constexpr std::size_t kEntries = 4096;
  static constexpr std::size_t kBytes = sizeof(FlightHeader) + kEntries * sizeof(FlightEntry);

  struct Owner {
    std::int32_t rank = 0;
    std::int32_t size = 1;
    std::uint64_t generation = 0;
    std::string host;
  };
  // `memory`: zeros, of kBytes at least, aligned for the entries; it outlives the recorder.
  FlightRecorder(std::span<std::byte> memory, const Owner& owner);

  struct Submission {
    std::string_view name;
    int collective = 0;
    int dtype = 0;
    std::int32_t set = 0;
    std::uint64_t bytes = 0;
    CoarseClock::time_point at;
  };
  // The entry's number, for what follows. The oldest entry goes, but for one whose operation has not ended while there
  // is another one near.
  std::uint64_t submitted(const Submission& submission);

  using Time = CoarseClock::time_point;
  // Nothing happens for a number whose entry is gone.
  void agreed(std::uint64_t number, Time at);
  void launched(std::uint64_t number, Time at);
  void ended(std::uint64_t number, const Status& status, Time at);
  void missing(std::uint64_t number, std::span<const std::int32_t> ranks);
  void complete(std::uint64_t number, std::int32_t last);
  void uses(std::string_view transport);

 private:
  FlightEntry* find(std::uint64_t number);

  FlightHeader* header_;
  std::span<FlightEntry> entries_;
};

// Says at which line of the program ("train.py:57") a thread of this rank waits; "": it waits no longer. Any thread: of
// two at once one is heard.
void note_line(std::span<std::byte> recorder, std::string_view line);

// What the ranks of a host submitted last and where they are, in a line for people. Blocks for a moment:
// where_process_is.
std::string latest_operations(std::span<const std::span<std::byte>> recorders);

// Writes the recorders of a host's ranks as one JSON file into the folder, once however many of its ranks ask. `why`:
// what ended the job.
Status dump_flight(std::span<const std::span<std::byte>> recorders, const std::string& folder, const Status& why);

}  // namespace roda::observe
