// Runs the actors' programs over a network: discrete events, one processor per rank.
//
// The model follows the executor. The data is cut into pieces, of which `in_flight` are under way on each rank; a rank
// begins the next stage of a piece when its own last stage of it has ended, and the next piece when its oldest has.
// A stage may cut its share of a piece into parts (StageCut), of which it has several under way, and each part's
// messages go in segments, so that a reduction overlaps the rest of the message. A send is started and not waited for,
// until its range is written or its lane ends. Sends never wait for their receiver: the network buffers (eager).
//
// Each message costs its sender's and its receiver's processor the level's overhead, a message to be added its bytes
// over the reduction rate besides. A signal to all peers costs the sender as much as one. Gets in a row are under way
// together, as memory that is mapped is read in one pass; inside a host (a level of that name) they need no request. A
// processor does one thing at a time, of what is ready the oldest piece first.
//
// Deterministic; used once.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/sim/model/actors.h"
#include "tools/sim/model/cluster.h"
#include "tools/sim/model/network.h"
#include "tools/sim/model/trace.h"

namespace roda::sim {

struct PlaybackOptions {
  double piece_bytes = 0;
  std::int32_t pieces = 1;
  std::int32_t in_flight = 4;
  std::vector<StageCut> stages;                    // one for each of the plan's
  std::map<std::int64_t, std::int64_t> shortened;  // rounds that repeat so often are simulated only so often
};

// A message is simulated in at most this many segments; each then stands for several.
inline constexpr std::int32_t kMostSegments = 8;

// Into how many parts the actor's stage cuts a piece.
std::int32_t parts_of(const Actor& actor, std::size_t stage, const PlaybackOptions& options);

class Playback {
 public:
  Playback(const Actors& actors, const Cluster& cluster, const PlaybackOptions& options, Trace* trace);

  // When the last rank has ended. False: ranks wait for ever, and stuck() says for what.
  bool run(Time* end);
  std::string stuck() const;

 private:
  struct PendingSend {
    std::int32_t ordinal;
    std::int32_t slot;
    std::int32_t segments;  // that have not left
  };
  struct LaneState {  // of one part
    std::int32_t part = 0;
    std::int32_t rounds = 0;
    std::int32_t op = 0;
    std::int64_t turn = 0;
    std::int32_t segment = 0;
    std::int32_t sent = 0;    // ordinals
    std::int32_t issued = 0;  // gets from here on, or the put, that are under way
    bool working = false;     // the processor has something of this lane
    bool done = false;
    std::int32_t cause = -1;
    std::vector<PendingSend> sends;
    std::vector<std::pair<std::int32_t, std::int32_t>> pulled;  // slot, segments that have arrived and wait
  };
  struct PieceRun {
    std::int32_t piece = -1;
    std::size_t stage = 0;
    std::int32_t parts = 1;  // of the stage, and how many have begun and ended, in order
    std::int32_t begun = 0;
    std::int32_t ended = 0;
    std::vector<LaneState> lanes;        // [part % in_flight of the stage * its lanes + lane]
    std::vector<std::int32_t> consumed;  // [slot * tags_ + tag]
  };
  struct Task {
    std::int64_t key = 0;
    std::int32_t run = 0;
    std::int32_t lane = 0;
    Time ready = 0;
    Time duration = 0;
    std::int32_t cause = -1;
  };
  struct ActorState {
    std::vector<PieceRun> runs;
    std::int32_t begun = 0;
    std::int32_t ended = 0;
    bool busy = false;
    bool dirty = false;
    Task current;
    Time began = 0;
    std::int32_t last_record = -1;
    std::vector<Task> ready;
    std::vector<std::int32_t> out;  // [slot] connection
    std::vector<std::int32_t> in;   // [slot] connection, -1: none
  };
  struct Owner {  // of a connection
    std::int32_t actor = 0;
    std::int32_t slot = 0;
    bool pulls = false;
    std::int32_t last_wire = -1;                                 // record of the message before, when traced
    std::vector<std::pair<std::int32_t, std::int32_t>> readers;  // actor, slot
    std::vector<std::int32_t> arrived;                           // [piece * tags_ + tag]
    std::map<std::int32_t, std::vector<std::int32_t>> causes;    // of the arrivals, when traced
  };
  struct StageTags {
    std::int32_t first = 0;
    std::int32_t each = 0;  // of a part: its signals, then its lanes
  };
  struct Place {  // that a tag stands for
    std::size_t stage;
    std::int32_t part;
    std::int32_t lane;  // negative: a signal
  };
  enum class What : std::uint8_t { kProcessor, kArrival, kRequest };
  struct Event {
    Time time;
    std::uint64_t number;
    What what;
    std::int32_t subject;  // actor, or connection
    Message message;
  };

  void connect();
  void add_event(Time time, What what, std::int32_t subject, const Message& message = {});
  bool step(Time* now);
  void handle(const Event& event);
  void handle_departure(const Departure& departure);
  void handle_arrival(std::int32_t connection, const Message& message);
  void dispatch(std::int32_t actor);
  void enqueue_task(std::int32_t actor, std::int32_t run, std::int32_t lane, Time duration);
  void wake(std::int32_t actor);

  void begin_pieces(std::int32_t actor, std::int32_t cause);
  void begin_stage(std::int32_t actor, std::int32_t run, std::int32_t cause);
  void begin_parts(std::int32_t actor, std::int32_t run, std::int32_t cause);
  void end_lane(std::int32_t actor, std::int32_t run, std::int32_t lane);
  void advance(std::int32_t actor, std::int32_t run, std::int32_t lane);
  bool try_op(std::int32_t actor, std::int32_t run, std::int32_t lane, const Cost& op);
  bool try_receive(std::int32_t actor, std::int32_t run, std::int32_t lane, const Cost& op);
  bool take_arrival(std::int32_t actor, std::int32_t run, std::int32_t lane, const Cost& op, std::int32_t tag);
  bool blocked(const LaneState& lane, const Cost& op) const;
  void complete(std::int32_t actor, const Task& task);
  void post(std::int32_t actor, std::int32_t run, std::int32_t lane, const Cost& op, std::int32_t cause);
  std::int32_t gets_from(std::int32_t actor, const PieceRun& run, std::int32_t lane) const;
  void next_op(std::int32_t actor, std::int32_t run, LaneState* lane);

  const Cost* current_op(std::int32_t actor, const PieceRun& run, std::int32_t lane) const;
  std::int64_t turns(const Rounds& rounds) const;
  std::int32_t segments(std::size_t stage, double bytes) const;
  Time overhead(const Actor& actor, std::size_t stage, const Cost& op, double bytes) const;
  Time request_time(const Slot& slot) const;
  Time work(const Cost& op, double bytes) const;
  std::int32_t signal_tag(std::size_t stage, std::int32_t part, std::int32_t signal) const;
  std::int32_t lane_tag(std::size_t stage, const LaneState& state, std::int32_t lane) const;
  Place place_of(std::int32_t tag) const;
  // The index of a lane in PieceRun::lanes.
  std::int32_t index_of(std::int32_t actor, const Place& place) const {
    return place.part % options_.stages[place.stage].in_flight * lanes_of(actor, place.stage) + place.lane;
  }
  std::int32_t lanes_of(std::int32_t actor, std::size_t stage) const {
    return static_cast<std::int32_t>(actors_.actors[static_cast<std::size_t>(actor)].stages[stage].size());
  }
  double bytes_of(const PieceRun& run, const Cost& op) const { return op.bytes * options_.piece_bytes / run.parts; }
  std::int32_t note_task(std::int32_t actor, const Task& task);

  const Actors& actors_;
  const Cluster& cluster_;
  const PlaybackOptions options_;
  Trace* trace_;
  Network network_;
  std::vector<ActorState> states_;
  std::vector<Owner> owners_;  // [connection]
  std::vector<StageTags> stage_tags_;
  std::int32_t tags_ = 0;
  std::vector<Event> events_;
  std::uint64_t numbers_ = 0;
  std::vector<std::int32_t> dirty_;
  std::vector<Departure> left_;
  std::vector<Event> batch_;
  Time now_ = 0;
  Time end_ = 0;
};

}  // namespace roda::sim
