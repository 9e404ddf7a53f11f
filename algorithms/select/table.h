// Which algorithm over which transport: a table of rules, printable, written in the grammar users override it with.
//
// Grammar: rules separated by ';' or newlines, '#' starts a comment.
//   rule = collective [ '@' place ] [ ':' size '-' size ] [ '[' ranks ']' ] '=' option { ',' option }
//   place = "host" | "cuda" | "between"
//   option = [ '!' ] transport '/' algorithm [ '/' ( format | "auto" ) ]
// Sizes take K, M, G and "inf" (half-open: from <= bytes < to); ranks is a number or a range "2-8" (inclusive) or "2-".
// host and cuda are the memory of the data; between: each rank is on a host of its own, as in the part of a composition
// that crosses between hosts. format: of the messages (roda_wire_formats), between hosts alone;
// auto: bf16 where the link between hosts is slow enough, else the option is passed over.
// transport may be '*' (any offered, in order of preference); algorithm may be "native". The transport "levels" stands
// for compositions over hosts ("hierarchical", "two_step", "torus"), whose parts this table chooses in turn. A leading
// '!' before an option forbids it, and without a format, in every format. Example: allreduce@host:0-64K[2-16] =
// shm/oneshot, gloo/recursive_doubling The first matching rule decides; a user's rules come before the defaults, and
// the rest of the defaults stay as fallbacks. There are no ties: order is the order of writing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/schedule/schedule.h"

namespace roda::select {

// An algorithm's name in a rule: the transport's own collective instead of a schedule.
using schedule::kNative;
inline constexpr const char* kAnyTransport = "*";
// In place of a transport: a composition of collectives inside hosts and across them, each by what the table says.
inline constexpr const char* kLevels = "levels";
// Behind an algorithm's name, in place of a format.
inline constexpr std::string_view kAuto = "/auto";
bool is_composition(schedule::Collective collective, std::string_view name);

enum class Memory : std::uint8_t { kHost = 0, kCuda = 1 };

struct Query {
  schedule::Collective collective = schedule::Collective::kAllreduce;
  Memory memory = Memory::kHost;
  std::size_t bytes = 0;  // allreduce, broadcast: of the tensor; allgather, alltoall: of the largest rank's output;
                          // reduce-scatter: of the input
  int size = 1;           // ranks of the group
  bool in_rank_order = false;  // reductions must come to the same bits whatever runs them
  bool between = false;        // each rank is on a host of its own
  std::string unformatted;     // why no message may have a format; empty: it may
  std::string no_gain;         // why bf16 is not worth it between these hosts; empty: it is
  double most_error = std::numeric_limits<double>::infinity();  // that a format chosen here may have (error_bound())
};

// A transport as far as selection cares. Order of a vector of offers = order of preference for '*'.
struct Offer {
  std::string transport;
  std::uint32_t needs_met = 0;  // schedule::Needs bits
  bool native = false;          // has the collective natively for this dtype, op and memory kind
  // Its windows are served by their owners' progress, so reading them is no better than messages: '*' does not stand
  // for it in front of an algorithm of signals and windows, only its name does.
  bool active_windows = false;
  bool maps = false;  // peers' memory can be read in place
  // The offer "levels" alone has these: why each composition can't run, by name; empty: it can.
  std::map<std::string, std::string> compositions;
};

struct Option {
  std::string transport;
  std::string algorithm;  // "native" or a name that schedule::find_algorithm() knows
  std::string text() const { return transport + "/" + algorithm; }
  friend bool operator==(const Option&, const Option&) = default;
};

// One option that was looked at, in order; the first usable one is what runs.
struct Verdict {
  Option option;
  bool usable = false;
  std::string reason;  // why not, or which rule chose it
};

class Table {
 public:
  // The built-in defaults, themselves written in the grammar.
  static const Table& defaults();

  // nullopt on a syntax error or an unknown name, with *error naming the rule and the place.
  static std::optional<Table> parse(const std::string& text, std::string* error);

  // `user` before this.
  Table overridden_by(const Table& user) const;

  // Every option the rules give for the query, expanded over the offers, without repeats. May hold no usable one.
  std::vector<Verdict> rank(const Query& query, const std::vector<Offer>& offers) const;

  // The options that rules forbid, in the grammar: "allreduce = !gloo/ring; ...". Empty: nothing.
  std::string bans() const;

  // In the grammar; parse(to_text()) is the same table.
  std::string to_text() const;
  // FNV-1a of to_text(): compared across ranks at init.
  std::uint64_t hash() const;

  struct Rule {
    schedule::Collective collective = schedule::Collective::kAllreduce;
    std::optional<Memory> memory;
    bool between = false;
    std::size_t from = 0;
    std::size_t to = SIZE_MAX;
    int min_ranks = 1;
    int max_ranks = INT32_MAX;
    std::vector<Option> options;
    std::vector<bool> forbidden;  // parallel to options

    std::string selector() const;  // "allreduce@host:0-64K[2-16]": what the rule is for
  };
  const std::vector<Rule>& rules() const { return rules_; }
  // Where what rank() says may change as bytes grow: numbers of bytes at which some rule begins or ends to hold,
  // ascending, each once.
  std::vector<std::size_t> edges() const;
  // Whether some rule leaves it to the link between hosts whether messages have a format.
  bool asks_for_auto() const;

 private:
  std::vector<Rule> rules_;
};

// By which collectives between hosts that can have their messages in a wire format do, where one was asked for.
std::string rules_in_format(const std::string& format);

}  // namespace roda::select
