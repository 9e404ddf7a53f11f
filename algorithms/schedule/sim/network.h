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

#include <cstdint>
#include <vector>

#include "algorithms/schedule/sim/actors.h"

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
  explicit Network(const std::vector<LinkClass>& links);

  // The route outlives the network. Returns the connection's number.
  std::int32_t connect(const std::vector<Hop>& route);
  void send(std::int32_t connection, const Message& message);

  // Shares the links out anew after send() and finish(). Call once all of an instant has been said.
  void settle(Time now);
  // The next instant at which a message has left; kNever: nothing is under way.
  Time next() const { return heap_.empty() ? kNever : heap_.front().time; }
  // Takes the messages that have left by `now`, which is at most next().
  void finish(Time now, std::vector<Departure>* left);

  static constexpr Time kNever = INT64_MAX;

 private:
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

  static void take(Connection* connection, Time now);
  void begin(std::int32_t number, Time now);
  bool goes_on(std::int32_t number, Time now);
  void leave(std::int32_t number);
  // Whether its users could want more than it has. What is not scarce decides about nobody, and ties nobody together.
  static bool is_scarce(const LinkState& link) { return link.demand > link.capacity * (1 + 1e-9); }
  void add(std::int32_t number);
  void add_link(std::int32_t number);
  void share_out(Time now);
  void fill();
  void fix(std::int32_t number, double rate);
  void apply(std::int32_t number, Time now);
  void push(const Entry& entry);

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
