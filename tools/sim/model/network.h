// Who gets how much of the links, over time.
//
// Messages of one connection follow each other; connections that are busy share the links they cross max-min fairly:
// the rates are as equal as the links allow, and nothing is left unused that some flow could use. That is what TCP and
// the queue pairs of network cards come close to. And it treats equal flows equally, whatever their order, so that
// equal ranks stay equal and can be folded into one (actors.h); first come, first served at the links would tell them
// apart.
//
// Time is in whole picoseconds, so that what is simultaneous is so exactly.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "algorithms/index.h"
#include "tools/sim/model/actors.h"

namespace roda::sim {

using Time = std::int64_t;  // picoseconds
inline constexpr double kPicosecondsPerMicrosecond = 1e6;

struct Message {
  double bytes = 0;
  std::int32_t tag = 0;     // the owner's
  std::int32_t cause = -1;  // what made it ready; the trace's
};

// One end of a message.
struct Departure {
  std::int32_t connection = 0;
  Message message;
  Time began = 0;
};

class Network {
 public:
  explicit Network(const std::vector<LinkClass>& links) {
    for (const LinkClass& link : links) links_.emplace_back().capacity = link.capacity;
  }

  // The route outlives the network. Returns the connection's number.
  std::int32_t connect(const std::vector<Hop>& route) {
    Connection& connection = connections_.emplace_back();
    connection.route = &route;
    connection.most = std::numeric_limits<double>::infinity();
    for (const Hop& hop : route) connection.most = std::min(connection.most, links_[at(hop.link)].capacity / hop.flows);
    return static_cast<std::int32_t>(connections_.size()) - 1;
  }

  void send(std::int32_t connection, const Message& message) {
    Connection& to = connections_[at(connection)];
    to.waiting.push_back(message);
    if (!to.busy && to.waiting.size() == to.head + 1) started_.push_back(connection);
  }

  // Shares the links out anew after send() and finish(). Call once all of an instant has been said.
  void settle(Time now) {
    for (const std::int32_t number : started_) begin(number, now);
    started_.clear();
    ++epoch_;
    for (const std::int32_t number : disturbed_) {
      LinkState& link = links_[at(number)];
      const bool was_scarce = link.was_scarce;
      link.was_scarce = is_scarce(link);
      if (link.was_scarce) {
        if (link.seen == epoch_) continue;
        add_link(number);
      } else if (was_scarce) {
        for (const auto& user : link.users) add(user.first);
      }
      share_out(now);
    }
    for (const std::int32_t number : fresh_) {
      add(number);
      share_out(now);
    }
    fresh_.clear();
    disturbed_.clear();
    while (!heap_.empty() && connections_[at(heap_.front().connection)].version != heap_.front().version) {
      std::pop_heap(heap_.begin(), heap_.end(), [](const Entry& a, const Entry& b) { return a.time > b.time; });
      heap_.pop_back();
    }
  }

  // The next instant at which a message has left; kNever: nothing is under way.
  Time next() const { return heap_.empty() ? kNever : heap_.front().time; }
  // Takes the messages that have left by `now`, which is at most next().
  void finish(Time now, std::vector<Departure>* left) {
    left->clear();
    while (!heap_.empty() && heap_.front().time <= now) {
      const Entry entry = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end(), [](const Entry& a, const Entry& b) { return a.time > b.time; });
      heap_.pop_back();
      Connection& connection = connections_[at(entry.connection)];
      if (connection.version != entry.version) continue;
      ++connection.version;
      left->push_back({entry.connection, connection.current, connection.began});
      if (goes_on(entry.connection, now)) continue;
      leave(entry.connection);
      connection.busy = false;
      connection.ends = kNever;
      if (!connection.waiting.empty()) started_.push_back(entry.connection);
    }
    // By connection, whatever the heap's order of equals.
    std::ranges::sort(*left, [](const auto& a, const auto& b) { return a.connection < b.connection; });
  }

  static constexpr Time kNever = INT64_MAX;

 private:
  static constexpr double kRounding = 1e-6;  // of a picosecond: sums in another order are the same sum
  static constexpr double kSame = 1e-12;     // relative, of rates

  struct Connection {
    const std::vector<Hop>* route = nullptr;
    double most = 0;  // bytes per picosecond, if nobody else were there
    std::vector<Message> waiting;
    std::size_t head = 0;  // of waiting
    Message current;
    bool busy = false;
    double rate = -1;  // bytes per picosecond
    double left = 0;
    Time began = 0;
    Time updated = 0;
    Time ends = kNever;
    std::uint32_t version = 0;
    std::uint32_t seen = 0;
    bool fixed = false;
    double fresh = 0;  // the rate being found
  };
  struct Entry {  // of the heap
    Time time;
    std::int32_t connection;
    std::uint32_t version;
  };
  struct LinkState {
    double capacity = 0;
    std::vector<std::pair<std::int32_t, double>> users;  // connection, flows
    double demand = 0;                                   // of the users, each as if nobody else were there
    bool was_scarce = false;                             // when rates were last found
    std::uint32_t seen = 0;
    double room = 0;
    double flows = 0;
  };

  static void take(Connection* connection, Time now) {
    connection->current = connection->waiting[connection->head++];
    if (connection->head == connection->waiting.size()) {
      connection->waiting.clear();
      connection->head = 0;
    }
    connection->began = connection->updated = now;
    connection->left = connection->current.bytes;
    ++connection->version;
  }

  void begin(std::int32_t number, Time now) {
    Connection& connection = connections_[at(number)];
    take(&connection, now);
    connection.busy = true;
    connection.rate = -1;
    if (connection.left <= 0) {  // nothing to share
      connection.ends = now;
      push({now, number, connection.version});
      return;
    }
    fresh_.push_back(number);
    for (const Hop& hop : *connection.route) {
      LinkState& link = links_[at(hop.link)];
      link.users.emplace_back(number, hop.flows);
      link.demand += connection.most * hop.flows;
      disturbed_.push_back(hop.link);
    }
  }

  // The next message of a busy connection takes the place of the last: nobody else's share changes.
  bool goes_on(std::int32_t number, Time now) {
    Connection& connection = connections_[at(number)];
    if (connection.head == connection.waiting.size() || !(connection.rate > 0)) return false;
    if (connection.waiting[connection.head].bytes <= 0) return false;
    take(&connection, now);
    connection.ends = now + static_cast<Time>(std::ceil(connection.left / connection.rate - kRounding));
    push({connection.ends, number, connection.version});
    return true;
  }

  void leave(std::int32_t number) {
    for (const Hop& hop : *connections_[at(number)].route) {
      LinkState& link = links_[at(hop.link)];
      auto& users = link.users;
      const auto user = std::ranges::find_if(users, [&](const auto& u) { return u.first == number; });
      if (user == users.end()) continue;
      *user = users.back();
      users.pop_back();
      link.demand = users.empty() ? 0 : link.demand - connections_[at(number)].most * hop.flows;
      disturbed_.push_back(hop.link);
    }
  }

  // Whether its users could want more than it has. What is not scarce decides about nobody, and ties nobody together.
  static bool is_scarce(const LinkState& link) { return link.demand > link.capacity * (1 + 1e-9); }
  // One of those whose rates are to be found, and the scarce links that it crosses.
  void add(std::int32_t number) {
    Connection& connection = connections_[at(number)];
    if (connection.seen == epoch_) return;
    connection.seen = epoch_;
    connection.fixed = false;
    found_.push_back(number);
    for (const Hop& hop : *connection.route) {
      if (is_scarce(links_[at(hop.link)])) add_link(hop.link);
    }
  }

  void add_link(std::int32_t number) {
    if (links_[at(number)].seen == epoch_) return;
    links_[at(number)].seen = epoch_;
    found_links_.push_back(number);
  }

  // Finds the rates of what was added, and of all that shares scarce links with it, directly or through others.
  void share_out(Time now) {
    for (std::size_t i = 0; i < found_links_.size(); ++i) {
      for (const auto& user : links_[at(found_links_[i])].users) add(user.first);
    }
    fill();
    for (const std::int32_t number : found_) apply(number, now);
    found_links_.clear();
    found_.clear();
  }

  // Progressive filling: the link that gives its users least decides about them, then the next. Whom the rest of its
  // route gives less than that has less.
  void fill() {
    constexpr double kNoFlows = 1e-9;
    for (const std::int32_t number : found_links_) {
      LinkState& link = links_[at(number)];
      link.room = link.capacity;
      link.flows = 0;
      for (const auto& user : link.users) link.flows += user.second;
    }
    const auto most = [&](std::int32_t number) { return connections_[at(number)].most; };
    std::ranges::sort(found_, [&](auto a, auto b) { return std::pair(most(a), a) < std::pair(most(b), b); });
    for (std::size_t next = 0; next < found_.size();) {
      double least = std::numeric_limits<double>::infinity();
      for (const std::int32_t number : found_links_) {
        const LinkState& link = links_[at(number)];
        if (link.flows > kNoFlows) least = std::min(least, std::max(link.room, 0.0) / link.flows);
      }
      const std::size_t before = next;
      for (; next < found_.size(); ++next) {
        const bool is_fixed = connections_[at(found_[next])].fixed;
        if (!is_fixed && most(found_[next]) > least * (1 + kSame)) break;
        if (!is_fixed) fix(found_[next], most(found_[next]));
      }
      if (next != before) continue;
      for (const std::int32_t number : found_links_) {
        const LinkState& link = links_[at(number)];
        if (link.flows <= kNoFlows || std::max(link.room, 0.0) / link.flows > least * (1 + kSame)) continue;
        for (const auto& user : link.users) {
          if (!connections_[at(user.first)].fixed) fix(user.first, least);
        }
      }
    }
  }

  void fix(std::int32_t number, double rate) {
    Connection& connection = connections_[at(number)];
    connection.fixed = true;
    connection.fresh = rate;
    for (const Hop& hop : *connection.route) {
      LinkState& link = links_[at(hop.link)];
      link.room -= rate * hop.flows;
      link.flows -= hop.flows;
    }
  }

  void apply(std::int32_t number, Time now) {
    Connection& connection = connections_[at(number)];
    if (connection.rate > 0 && std::abs(connection.fresh - connection.rate) <= kSame * connection.rate) return;
    if (connection.rate > 0) connection.left -= connection.rate * static_cast<double>(now - connection.updated);
    connection.left = std::max(connection.left, 0.0);
    connection.updated = now;
    connection.rate = connection.fresh;
    connection.ends = now + static_cast<Time>(std::ceil(connection.left / connection.rate - kRounding));
    push({connection.ends, number, ++connection.version});
  }

  void push(const Entry& entry) {
    heap_.push_back(entry);
    std::push_heap(heap_.begin(), heap_.end(), [](const Entry& a, const Entry& b) { return a.time > b.time; });
  }

  std::vector<LinkState> links_;
  std::vector<Connection> connections_;
  std::vector<std::int32_t> started_;    // connections to begin their next message
  std::vector<std::int32_t> fresh_;      // that have begun and have no rate yet
  std::vector<std::int32_t> disturbed_;  // links whose users changed
  std::vector<std::int32_t> found_links_, found_;
  std::vector<Entry> heap_;
  std::uint32_t epoch_ = 0;
};

}  // namespace roda::sim
