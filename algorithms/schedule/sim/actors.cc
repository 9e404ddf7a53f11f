#include "algorithms/schedule/sim/actors.h"

#include <algorithm>
#include <unordered_map>

#include "algorithms/schedule/sim/behaviours.h"

namespace roda::sim {
namespace {

// Colours of ranks and links after `rounds` refinements; see actors.h.
class Colours {
 public:
  Colours(const Behaviours& behaviours, const Routes& routes) : behaviours_(behaviours) {
    for (const Link& link : behaviours.links()) {
      std::uint64_t colour = mix(static_cast<std::uint64_t>(link.level), static_cast<std::uint64_t>(link.kind));
      links_.push_back(mix(colour, static_cast<std::uint64_t>(routes.capacity(link) * 1e6)));
    }
    for (std::int32_t rank = 0; rank < behaviours.ranks(); ++rank) ranks_.push_back(behaviours.fingerprint(rank));
    count_ = count(ranks_) + count(links_);
  }

  // Until nothing splits; false when there are more than `most` colours of ranks, or too many rounds were needed.
  bool settle(std::int32_t most, int rounds) {
    for (int round = 0; round < rounds; ++round) {
      refine();
      const std::size_t classes = count(ranks_);
      if (classes > static_cast<std::size_t>(most)) return false;
      const std::size_t now = classes + count(links_);
      if (now == count_) return true;
      count_ = now;
    }
    return false;
  }

  const std::vector<std::uint64_t>& ranks() const { return ranks_; }
  const std::vector<std::uint64_t>& links() const { return links_; }

 private:
  static std::size_t count(std::vector<std::uint64_t> colours) {
    std::sort(colours.begin(), colours.end());
    return static_cast<std::size_t>(std::unique(colours.begin(), colours.end()) - colours.begin());
  }

  void refine() {
    next_ranks_ = ranks_;
    next_links_ = links_;
    for (std::int32_t rank = 0; rank < behaviours_.ranks(); ++rank) {
      const auto number = static_cast<std::size_t>(rank);
      std::uint64_t colour = ranks_[number];
      for (std::size_t slot = behaviours_.begin(rank); slot < behaviours_.begin(rank + 1); ++slot) {
        const Behaviours::Peer& peer = behaviours_.peers()[slot];
        const std::uint64_t user = mix(ranks_[number], slot - behaviours_.begin(rank));
        colour = mix(colour, ranks_[static_cast<std::size_t>(peer.rank)]);
        colour = mix(colour, static_cast<std::uint64_t>(peer.back));
        for (std::int32_t hop = peer.route; hop < peer.end; ++hop) {
          const auto link = static_cast<std::size_t>(behaviours_.hops()[static_cast<std::size_t>(hop)]);
          colour = mix(colour, links_[link] + (hop < peer.pull ? 0 : 1));
          next_links_[link] += mix(user, static_cast<std::uint64_t>(hop < peer.pull ? 0 : 1));
        }
      }
      next_ranks_[number] = colour;
    }
    ranks_.swap(next_ranks_);
    for (std::size_t link = 0; link < links_.size(); ++link) links_[link] = mix(next_links_[link], 0);
  }

  const Behaviours& behaviours_;
  std::vector<std::uint64_t> ranks_, links_, next_ranks_, next_links_;
  std::size_t count_ = 0;
};

// Numbers equal colours alike, in their order of appearance.
std::vector<std::int32_t> classes_of(const std::vector<std::uint64_t>& colours) {
  std::unordered_map<std::uint64_t, std::int32_t> numbers;
  std::vector<std::int32_t> classes;
  for (const std::uint64_t colour : colours) {
    classes.push_back(numbers.emplace(colour, static_cast<std::int32_t>(numbers.size())).first->second);
  }
  return classes;
}

std::vector<std::int32_t> each_alone(std::size_t count) {
  std::vector<std::int32_t> classes(count);
  for (std::size_t i = 0; i < count; ++i) classes[i] = static_cast<std::int32_t>(i);
  return classes;
}

class ActorBuilder {
 public:
  ActorBuilder(const RankPrograms& programs, const Routes& routes, const Behaviours& behaviours,
               std::vector<std::int32_t> rank_class, std::vector<std::int32_t> link_class)
      : programs_of_ranks_(programs),
        routes_(routes),
        behaviours_(behaviours),
        rank_class_(std::move(rank_class)),
        link_class_(std::move(link_class)) {}

  Actors run() {
    actors_.ranks = behaviours_.ranks();
    count_links();
    std::vector<std::int64_t> counts;
    std::vector<std::int32_t> examples;
    for (std::int32_t rank = 0; rank < behaviours_.ranks(); ++rank) {
      const auto actor = static_cast<std::size_t>(rank_class_[static_cast<std::size_t>(rank)]);
      if (actor == counts.size()) {
        counts.push_back(0);
        examples.push_back(rank);
      }
      ++counts[actor];
    }
    for (std::size_t i = 0; i < counts.size(); ++i) add_actor(examples[i], counts[i]);
    actors_.folded = actors_.actors.size() < static_cast<std::size_t>(actors_.ranks);
    return std::move(actors_);
  }

 private:
  void count_links() {
    for (std::size_t link = 0; link < link_class_.size(); ++link) {
      const auto number = static_cast<std::size_t>(link_class_[link]);
      if (number == actors_.links.size()) {
        const Link& example = behaviours_.links()[link];
        actors_.links.push_back({example, routes_.capacity(example), 0});
      }
      ++actors_.links[number].count;
    }
  }

  void add_actor(std::int32_t rank, std::int64_t count) {
    Actor actor = behaviour_of(programs_of_ranks_, rank).actor;
    actor.count = count;
    for (std::size_t slot = behaviours_.begin(rank); slot < behaviours_.begin(rank + 1); ++slot) {
      const Behaviours::Peer& peer = behaviours_.peers()[slot];
      Slot made;
      made.rank = peer.rank;
      made.actor = rank_class_[static_cast<std::size_t>(peer.rank)];
      made.back = peer.back;
      made.level = static_cast<std::int32_t>(routes_.meeting(rank, peer.rank));
      made.out = hops(peer.route, peer.pull, count);
      made.in = hops(peer.pull, peer.end, count);
      actor.slots.push_back(std::move(made));
    }
    actors_.actors.push_back(std::move(actor));
  }

  // Every rank of the class sends one flow over as many links of the hop's class as the route names.
  std::vector<Hop> hops(std::int32_t begin, std::int32_t end, std::int64_t count) const {
    std::vector<Hop> made;
    for (std::int32_t hop = begin; hop < end; ++hop) {
      const std::int32_t link =
          link_class_[static_cast<std::size_t>(behaviours_.hops()[static_cast<std::size_t>(hop)])];
      const double each =
          static_cast<double>(count) / static_cast<double>(actors_.links[static_cast<std::size_t>(link)].count);
      const auto known = std::find_if(made.begin(), made.end(), [&](const Hop& h) { return h.link == link; });
      if (known != made.end()) {
        known->flows += each;
      } else {
        made.push_back({link, each});
      }
    }
    return made;
  }

  const RankPrograms& programs_of_ranks_;
  const Routes& routes_;
  const Behaviours& behaviours_;
  std::vector<std::int32_t> rank_class_;
  std::vector<std::int32_t> link_class_;
  Actors actors_;
};

// A colour travels one peer further in each round; more rounds than this mean that the ranks differ all over.
constexpr int kMostRounds = 2048;

}  // namespace

Actors every_rank(const RankPrograms& programs, const Routes& routes) {
  const Behaviours behaviours(programs, routes);
  return ActorBuilder(programs, routes, behaviours, each_alone(static_cast<std::size_t>(behaviours.ranks())),
                      each_alone(behaviours.links().size()))
      .run();
}

std::optional<Actors> every_class(const RankPrograms& programs, const Routes& routes, std::int32_t most) {
  const Behaviours behaviours(programs, routes);
  Colours colours(behaviours, routes);
  if (!colours.settle(most, kMostRounds)) return std::nullopt;
  return ActorBuilder(programs, routes, behaviours, classes_of(colours.ranks()), classes_of(colours.links())).run();
}

}  // namespace roda::sim
