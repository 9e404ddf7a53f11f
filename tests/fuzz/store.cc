// What clients and servers of the store read, and the table behind it, as the server uses it.
#include <map>

#include "core/bootstrap/store_table.h"
#include "core/bootstrap/store_wire.h"
#include "tests/fuzz/fuzz.h"

namespace roda::fuzz {
namespace {

using store_wire::Op;

constexpr std::size_t kMostBytes = 4096;
constexpr int kMostValues = 8;

void serve(std::uint64_t client, const store_wire::Request& request, StoreTable* table) {
  std::vector<StoreTable::Waiter> woken, complete;
  const std::string* value = nullptr;
  const StoreTable::Waiter waiter{client, request.id};
  const int number = static_cast<int>(request.value.size() % 4);
  switch (request.op) {
    case Op::kPutIfAbsent:
      if (table->holds(request.key)) break;
      [[fallthrough]];
    case Op::kPut:
      require(!table->put(request.key, request.value, &woken).ok() || table->holds(request.key), "a put is kept");
      break;
    case Op::kGet:
      static_cast<void>(table->get(request.key, waiter, &value));
      break;
    case Op::kGive:
      static_cast<void>(table->give(request.key, number, request.value, &woken, &complete));
      require(complete.empty() || table->text(request.key) != nullptr, "all are there when it is said");
      break;
    case Op::kTake:
      static_cast<void>(table->take(request.key, number, waiter, &value));
      break;
    case Op::kTakeAll:
      static_cast<void>(table->take_all(request.key, number, waiter, &value));
      if (value != nullptr) table->release(request.key);
      break;
    case Op::kRelease:
      table->release(request.key, number);
      break;
    case Op::kMissing:
      require(table->first_missing(request.key, number) < std::max(number, 1), "who is missing is one of them");
      break;
    case Op::kEnter:
      static_cast<void>(table->take_waiters(request.key));
      break;
    case Op::kLeave:
      table->forget_waiters(client);
      break;
  }
  require(table->bytes() <= kMostBytes, "the table has a bound");
}

void read_gathering(std::string_view text) {
  std::vector<std::string> values, again;
  static_cast<void>(store_wire::whole_length(text));
  int count = 0;
  while (count < kMostValues && !store_wire::values_of(text, count, &values)) ++count;
  if (count == kMostValues) return;
  std::map<int, std::string> by_rank;
  for (const std::string& value : values) by_rank.emplace(static_cast<int>(by_rank.size()), value);
  const std::string written = store_wire::text_of(by_rank);
  require(store_wire::whole_length(written) == written.size(), "a gathering knows its length");
  require(store_wire::values_of(written, count, &again) && again == values, "a gathering survives the trip");
}

void read_response(Bytes frame) {
  const auto response = store_wire::parse_response(frame);
  if (!response) return;
  require(store_wire::encode(*response) == std::vector<std::uint8_t>(frame.begin(), frame.end()),
          "an answer is itself");
  if (response->outcome != store_wire::Outcome::kFailed) return;
  const Status failure = store_wire::failure_of(response->value);
  require(!failure.ok(), "a failure is one");
  const Status again = store_wire::failure_of(store_wire::text_of(failure));
  require(again.code() == failure.code() && again.rank() == failure.rank(), "a failure survives the trip");
}

}  // namespace

std::vector<std::string> seeds() {
  std::string all;
  for (int op = static_cast<int>(Op::kPut); op <= static_cast<int>(Op::kRelease); ++op) {
    const std::string_view value = op == static_cast<int>(Op::kGet) ? "" : "1";
    const auto frame = store_wire::encode(store_wire::Request{static_cast<Op>(op), 7, "a/b", value});
    all += chunk({reinterpret_cast<const char*>(frame.data()), frame.size()});
  }
  const std::string failure = store_wire::text_of(Status::peer(1, "rank 1 has ended"));
  const auto answer = store_wire::encode(store_wire::Response{7, store_wire::Outcome::kFailed, failure});
  return {all, all + all, store_wire::text_of({{0, "a"}, {1, ""}}),
          chunk({reinterpret_cast<const char*>(answer.data()), answer.size()})};
}

}  // namespace roda::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace roda::fuzz;
  Input input(data, size);
  read_gathering({reinterpret_cast<const char*>(data), size});
  roda::StoreTable table(kMostBytes);
  for (std::uint64_t client = 0; input; client = (client + 1) % 3) {
    const auto frame = input.chunk();
    read_response(frame);
    const auto request = roda::store_wire::parse_request(frame);
    if (!request) continue;
    require(roda::store_wire::encode(*request) == std::vector<std::uint8_t>(frame.begin(), frame.end()),
            "a request is itself");
    serve(client, *request, &table);
  }
  for (std::uint64_t client = 0; client < 3; ++client) table.forget_waiters(client);
  require(table.take_waiters("").empty(), "whoever is gone waits for nothing");
  return 0;
}
