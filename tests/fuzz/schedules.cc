// A user's schedule file: what is accepted is proved, and writes and reads back the same.
#include "algorithms/schedule/schedule.h"
#include "algorithms/text/schedule_file.h"
#include "tests/fuzz/fuzz.h"

namespace roda::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> seeds;
  for (const schedule::Algorithm* algorithm : schedule::algorithms()) {
    for (const int ranks : {2, 3}) {
      if (!algorithm->accepts(ranks)) continue;
      std::vector<schedule::Schedule> schedules;
      for (int rank = 0; rank < ranks; ++rank) schedules.push_back(algorithm->make(rank, ranks, 0));
      seeds.push_back(text::write_schedules(schedules));
    }
  }
  return seeds;
}

}  // namespace roda::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace roda;
  std::vector<schedule::Schedule> read, again;
  const auto wrong = text::read_schedules(std::string(fuzz::Input(data, size).rest()), &read);
  fuzz::require(!wrong || !wrong->empty(), "an error says what is wrong");
  if (wrong) return 0;
  const std::string written = text::write_schedules(read);
  fuzz::require(!text::read_schedules(written, &again) && text::write_schedules(again) == written,
                "schedules survive the trip");
  return 0;
}
