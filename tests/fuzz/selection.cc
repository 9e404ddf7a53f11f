// Rules of the selection table: what is accepted prints and reads back the same, and answers.
#include "algorithms/select/table.h"
#include "tests/fuzz/fuzz.h"

namespace roda::fuzz {

std::vector<std::string> seeds() {
  return {select::Table::defaults().to_text(), "allreduce@host:0-64K[2-16] = shm/oneshot, gloo/recursive_doubling",
          "allgather@cuda:1M-inf[2-] = nccl/native; # comment\nbroadcast = !*/native, levels/hierarchical"};
}

}  // namespace roda::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace roda::select;
  using roda::fuzz::require;
  std::string error;
  const auto table = Table::parse(std::string(roda::fuzz::Input(data, size).rest()), &error);
  require(table.has_value() == error.empty(), "an error says what is wrong");
  if (!table) return 0;
  const auto again = Table::parse(table->to_text(), &error);
  require(again && again->to_text() == table->to_text() && again->hash() == table->hash(), "rules survive the trip");
  const Table all = Table::defaults().overridden_by(*table);
  Query query;
  query.size = 4;
  for (const std::size_t bytes : table->edges()) {
    query.bytes = bytes;
    static_cast<void>(all.rank(query, {{"shm", 7, false, false, true, {}}, {"gloo", 0, true, false, false, {}}}));
  }
  return 0;
}
