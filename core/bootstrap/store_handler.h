// What the rendezvous does with a request, whoever brings it: keys and who waits for them, who is where in the start of
// a job, and what the others are told when one of these fails.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/bootstrap/store.h"
#include "core/bootstrap/store_table.h"
#include "core/bootstrap/store_wire.h"
#include "plugins/base/format.h"
#include "plugins/base/status.h"

namespace roda {

// Belongs to one thread. Clients are numbers.
class StoreHandler {
 public:
  // Drops nobody before it returns: callers hold references.
  using Answer = std::function<void(std::uint64_t client, const store_wire::Response& response)>;
  StoreHandler(std::size_t max_bytes, Answer answer) : table_(max_bytes), answer_(std::move(answer)) {}

  // An error is the client's fault, which is to be dropped.
  Status handle(std::uint64_t client, const store_wire::Request& request) {
    std::string_view rest = request.value;
    int number = 0;
    std::size_t offset = 0;
    if (request.op == store_wire::Op::kEnter || request.op >= store_wire::Op::kTake) {
      number = static_cast<int>(take_number(&rest));
      if (request.op == store_wire::Op::kTakeAll) offset = static_cast<std::size_t>(take_number(&rest));
      if (number < 0 || offset > INT32_MAX) return Status::invalid("it sent a request without its number");
    }
    if (is_retired(request.key)) {
      refuse(client, request);
      return {};
    }
    Status status;
    switch (request.op) {
      case store_wire::Op::kPutIfAbsent:
        if (table_.holds(request.key)) break;
        [[fallthrough]];
      case store_wire::Op::kPut:
        status = put(request);
        break;
      case store_wire::Op::kGive:
        status = give(request);
        break;
      case store_wire::Op::kGet:
      case store_wire::Op::kTake:
      case store_wire::Op::kTakeAll:
        status = find({client, request.id}, request, number, offset);
        break;
      case store_wire::Op::kMissing:
        answer_(client,
                {request.id, store_wire::Outcome::kValue, std::to_string(table_.first_missing(request.key, number))});
        break;
      case store_wire::Op::kRelease:
        table_.release(request.key, number);
        break;
      case store_wire::Op::kEnter:
        entered_[client][std::string(request.key)] = number;
        break;
      case store_wire::Op::kLeave:
        leave(client, request);
        break;
    }
    if (!status.ok()) answer_(client, {request.id, store_wire::Outcome::kError, status.message()});
    return {};
  }

  // A client's connection has ended. Where it had entered a scope (store.h) and not left it, its rank has failed.
  void gone(std::uint64_t client) {
    table_.forget_waiters(client);
    const auto at = entered_.find(client);
    if (at == entered_.end()) return;
    const auto scopes = std::move(at->second);
    entered_.erase(at);
    for (const auto& [scope, rank] : scopes) {
      fail(scope, store_wire::text_of(Status::peer(
                      rank, roda::format(
                                "Rank {} died while the job was starting: its connection to the rendezvous ended. Look "
                                "at its output for the cause.",
                                rank))));
    }
  }

  // See StoreServer.
  void retire(const std::string& scope, const std::string& reason) {
    const std::string prefix = scope + "/";
    fail(scope, reason);
    retired_.insert(prefix);
    table_.remove(prefix);
  }

 private:
  // Takes the number that the text begins with, and the space behind it; -1: it begins with none.
  static std::int64_t take_number(std::string_view* text) {
    std::int64_t number = -1;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
    if (error != std::errc() || number < 0 || number > INT32_MAX) return -1;
    text->remove_prefix(std::min(text->size(), static_cast<std::size_t>(end - text->data()) + 1));
    return number;
  }

  bool is_retired(std::string_view key) const {
    const auto after = retired_.upper_bound(key);
    return after != retired_.begin() && key.starts_with(*std::prev(after));
  }

  void refuse(std::uint64_t client, const store_wire::Request& request) {
    if (request.op == store_wire::Op::kMissing) return answer_(client, {request.id, store_wire::Outcome::kValue, "-1"});
    if (request.op != store_wire::Op::kGet && request.op != store_wire::Op::kTake &&
        request.op != store_wire::Op::kTakeAll)
      return;
    const std::string& scope = *std::prev(retired_.upper_bound(request.key));
    answer_(client, {request.id, store_wire::Outcome::kFailed, failures_.at(scope)});
  }

  Status put(const store_wire::Request& request) {
    std::vector<StoreTable::Waiter> woken;
    RODA_RETURN_IF_ERROR(table_.put(request.key, request.value, &woken));
    answer_all(woken, store_wire::Outcome::kValue, request.value);
    return {};
  }

  Status give(const store_wire::Request& request) {
    std::vector<StoreTable::Waiter> woken, complete;
    RODA_RETURN_IF_ERROR(table_.give(request.key, static_cast<int>(request.id), request.value, &woken, &complete));
    answer_all(woken, store_wire::Outcome::kValue, request.value);
    for (const auto& waiter : complete) {
      if (const std::string* text = table_.text(request.key)) hand_out(waiter, request.key, *text, 0);
    }
    return {};
  }

  // What is there is handed out, even after somebody has failed.
  Status find(StoreTable::Waiter waiter, const store_wire::Request& request, int number, std::size_t offset) {
    const std::string* found = nullptr;
    switch (request.op) {
      case store_wire::Op::kTake:
        RODA_RETURN_IF_ERROR(table_.take(request.key, number, waiter, &found));
        break;
      case store_wire::Op::kTakeAll:
        RODA_RETURN_IF_ERROR(table_.take_all(request.key, number, waiter, &found));
        if (found == nullptr) break;
        hand_out(waiter, request.key, *found, offset);
        return {};
      default:
        RODA_RETURN_IF_ERROR(table_.get(request.key, waiter, &found));
    }
    if (found != nullptr) {
      answer_(waiter.connection, {waiter.id, store_wire::Outcome::kValue, *found});
    } else {
      tell_failures(request.key);
    }
    return {};
  }

  // As much of a gathering's text as a frame takes.
  void hand_out(StoreTable::Waiter waiter, std::string_view key, std::string_view text, std::size_t offset) {
    const std::string_view piece = text.substr(std::min(offset, text.size()), Store::kMaxValue);
    answer_(waiter.connection, {waiter.id, store_wire::Outcome::kValue, piece});
    if (offset + piece.size() == text.size()) table_.release(key);
  }

  // To those who wait for something there.
  void tell_failures(std::string_view key) {
    for (const auto& [scope, failure] : failures_) {
      if (key.starts_with(scope)) answer_all(table_.take_waiters(scope), store_wire::Outcome::kFailed, failure);
    }
  }

  void leave(std::uint64_t client, const store_wire::Request& request) {
    const std::string scope(request.key);
    entered_[client].erase(scope);
    if (!request.value.empty()) fail(scope, std::string(request.value));
  }

  void fail(const std::string& scope, const std::string& failure) {
    const auto [at, is_first] = failures_.emplace(scope + "/", failure);
    if (is_first) tell_failures(at->first);
  }

  void answer_all(const std::vector<StoreTable::Waiter>& waiters, store_wire::Outcome outcome, std::string_view value) {
    for (const auto& waiter : waiters) answer_(waiter.connection, {waiter.id, outcome, value});
  }

  StoreTable table_;
  Answer answer_;
  std::map<std::uint64_t, std::map<std::string, int>> entered_;  // client -> scope -> as which rank
  std::map<std::string, std::string> failures_;  // by scope with its slash: the first failure there, as it is answered
  std::set<std::string, std::less<>> retired_;   // scopes with their slashes; each has its failure
};

}  // namespace roda
