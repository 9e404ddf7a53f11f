// What the rendezvous does with a request, whoever brings it: keys and who waits for them, who is where in the start of
// a job, and what the others are told when one of these fails.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/bootstrap/store_table.h"
#include "core/bootstrap/store_wire.h"
#include "plugins/base/status.h"

namespace roda {

// Belongs to one thread. Clients are numbers.
class StoreHandler {
 public:
  // Drops nobody before it returns: callers hold references.
  using Answer = std::function<void(std::uint64_t client, const store_wire::Response& response)>;
  StoreHandler(std::size_t max_bytes, Answer answer) : table_(max_bytes), answer_(std::move(answer)) {}

  // An error is the client's fault, which is to be dropped.
  Status handle(std::uint64_t client, const store_wire::Request& request);
  // A client's connection has ended. Where it had entered a scope (store.h) and not left it, its rank has failed.
  void gone(std::uint64_t client);
  // See StoreServer.
  void retire(const std::string& scope, const std::string& reason);

 private:
  bool is_retired(std::string_view key) const;
  void refuse(std::uint64_t client, const store_wire::Request& request);
  Status put(const store_wire::Request& request);
  Status give(const store_wire::Request& request);
  Status find(StoreTable::Waiter waiter, const store_wire::Request& request, int number, std::size_t offset);
  void hand_out(StoreTable::Waiter waiter, std::string_view key, std::string_view text, std::size_t offset);
  void tell_failures(std::string_view key);
  void leave(std::uint64_t client, const store_wire::Request& request);
  void fail(const std::string& scope, const std::string& failure);
  void answer_all(const std::vector<StoreTable::Waiter>& waiters, store_wire::Outcome outcome, std::string_view value);

  StoreTable table_;
  Answer answer_;
  std::map<std::uint64_t, std::map<std::string, int>> entered_;  // client -> scope -> as which rank
  std::map<std::string, std::string> failures_;  // by scope with its slash: the first failure there, as it is answered
  std::set<std::string, std::less<>> retired_;   // scopes with their slashes; each has its failure
};

}  // namespace roda
