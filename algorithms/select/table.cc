#include "algorithms/select/table.h"

#include <algorithm>
#include <set>
#include <utility>

#include "algorithms/schedule/format.h"

namespace roda::select {
namespace {

bool matches_but_for_place(const Table::Rule& rule, const Query& query) {
  return rule.collective == query.collective && (!rule.memory || *rule.memory == query.memory) &&
         query.bytes >= rule.from && (query.bytes < rule.to || rule.to == SIZE_MAX) && query.size >= rule.min_ranks &&
         query.size <= rule.max_ranks;
}

bool has_format(const Option& option) { return option.algorithm.find('/') != std::string::npos; }

std::string missing_words(std::uint32_t missing) {
  static constexpr std::pair<std::uint32_t, const char*> kWords[] = {{schedule::kNeedsMessages, "messages"},
                                                                     {schedule::kNeedsSignals, "signals"},
                                                                     {schedule::kNeedsGet, "get"},
                                                                     {schedule::kNeedsPut, "put"}};
  std::string words;
  for (const auto& [bit, word] : kWords) {
    if ((missing & bit) != 0) words += (words.empty() ? "" : ", ") + std::string(word);
  }
  return words;
}

// Why the option may come to other bits than those that reduce in rank order; empty when it can't.
std::string disorder(const std::string& name, const Query& query, const Offer& offer) {
  const schedule::Algorithm* algorithm = schedule::find_algorithm(query.collective, name);
  if (query.in_rank_order && algorithm != nullptr && algorithm->format != RODA_WIRE_NONE) {
    return "RODA_DETERMINISTIC: its messages are rounded";
  }
  const bool is_adasum = query.collective == schedule::Collective::kAdasum;
  if (!query.in_rank_order || is_adasum || !schedule::is(query.collective, RODA_COMBINES)) return "";
  if (offer.transport == kLevels || algorithm == nullptr || !algorithm->in_rank_order) {
    return "RODA_DETERMINISTIC: it does not reduce every element in rank order";
  }
  const bool by_messages = (algorithm->needs & ~schedule::kNeedsMessages) == 0;
  if (by_messages || offer.maps) return "";
  return "RODA_DETERMINISTIC: " + offer.transport + " fetches what it reduces, and would round after each rank";
}

// Why the offer can't run the algorithm; empty when it can.
std::string inability(const std::string& name, const Query& query, const Offer& offer) {
  if (offer.transport == kLevels) {
    const auto composition = offer.compositions.find(name);
    return composition == offer.compositions.end() ? "there is no composition of that name" : composition->second;
  }
  if (name == kNative) {
    if (offer.native) return "";
    return offer.transport + " has no native " + schedule::collective_name(query.collective) + " for this";
  }
  const schedule::Algorithm* algorithm = schedule::find_algorithm(query.collective, name);
  if (algorithm == nullptr) return "there is no algorithm of that name";
  if (const std::uint32_t missing = algorithm->needs & ~offer.needs_met; missing != 0) {
    return offer.transport + " does not offer " + missing_words(missing);
  }
  if (algorithm->format != RODA_WIRE_NONE && !query.unformatted.empty()) return query.unformatted;
  if (!algorithm->accepts(query.size)) return name + " does not run on " + std::to_string(query.size) + " ranks";
  return "";
}

std::string obstacle(const std::string& name, const Query& query, const Offer& offer) {
  std::string reason = inability(name, query, offer);
  return reason.empty() ? disorder(name, query, offer) : reason;
}

// Whether '*' stands for the offer in front of the algorithm.
bool stands_for(const Offer& offer, const std::string& name, const Query& query) {
  if (offer.transport == kLevels) return false;
  if (!offer.active_windows) return true;
  const schedule::Algorithm* algorithm = schedule::find_algorithm(query.collective, name);
  return algorithm == nullptr || (algorithm->needs & ~schedule::kNeedsMessages) == 0;
}

bool is_auto(const Option& option) { return option.algorithm.ends_with(kAuto); }

// Goes through the matching rules in order and collects the verdicts.
class Ranking {
 public:
  Ranking(const Query& query, const std::vector<Offer>& offers) : query_(query), offers_(offers) {}

  void apply(const Table::Rule& rule) {
    const std::string selector = rule.selector();
    // What a rule forbids holds for all of it, wherever in the rule it stands.
    for (std::size_t i = 0; i < rule.options.size(); ++i) {
      if (rule.forbidden[i]) bans_.push_back({rule.options[i], selector});
    }
    for (std::size_t i = 0; i < rule.options.size(); ++i) consider_all(rule.options[i], selector);
  }

  // Formats that were asked for by a rule for other places: whoever misses them is told why.
  void pass_over(const Table::Rule& rule) {
    for (std::size_t i = 0; i < rule.options.size(); ++i) {
      const Option& option = rule.options[i];
      if (rule.forbidden[i] || !has_format(option) || seen(option)) continue;
      verdicts_.push_back({option, false,
                           rule.selector() + " holds where each rank is on a host of its own, as in a composition's " +
                               "part between hosts"});
    }
  }

  std::vector<Verdict> take() { return std::move(verdicts_); }

 private:
  struct Ban {
    Option option;
    std::string selector;
  };

  void consider_all(const Option& option, const std::string& selector) {
    bool offered = false;
    for (const Offer& offer : offers_) {
      const bool is_any = option.transport == kAnyTransport && stands_for(offer, option.algorithm, query_);
      if (!is_any && option.transport != offer.transport) continue;
      offered = true;
      Option offered_one{offer.transport, option.algorithm};
      if (is_auto(option) && !decide(&offered_one)) continue;
      consider(offered_one, offer, selector);
    }
    if (offered || option.transport == kAnyTransport || seen(option)) return;
    verdicts_.push_back({option, false, "no transport " + option.transport + " is offered here"});
  }

  // Puts bf16 in the place of "auto" where it gains something.
  bool decide(Option* option) {
    std::string reason = query_.unformatted.empty() ? query_.no_gain : query_.unformatted;
    std::string formatted = option->algorithm.substr(0, option->algorithm.size() - kAuto.size());
    formatted += std::string("/") + roda_wire_formats[RODA_WIRE_BF16].name;
    const schedule::Algorithm* algorithm = schedule::find_algorithm(query_.collective, formatted);
    if (reason.empty() && algorithm->accepts(query_.size)) {
      const int roundings = schedule::rounding_of(*algorithm, query_.size).most;
      reason = schedule::beyond_bound(query_.most_error, algorithm->format, roundings);
    }
    if (!reason.empty() && !seen(*option)) verdicts_.push_back({*option, false, reason});
    if (reason.empty()) option->algorithm = std::move(formatted);
    return reason.empty();
  }

  void consider(const Option& option, const Offer& offer, const std::string& selector) {
    if (seen(option)) return;
    for (const Ban& ban : bans_) {
      const bool hit = ban.option.transport == kAnyTransport || ban.option.transport == option.transport;
      const bool is_it = option.algorithm == ban.option.algorithm;
      if (!hit || (!is_it && !option.algorithm.starts_with(ban.option.algorithm + "/"))) continue;
      verdicts_.push_back({option, false, "forbidden by " + ban.selector});
      return;
    }
    const std::string reason = obstacle(option.algorithm, query_, offer);
    verdicts_.push_back({option, reason.empty(), reason.empty() ? "given by " + selector : reason});
  }

  bool seen(const Option& option) const {
    return std::ranges::any_of(verdicts_, [&](const Verdict& v) { return v.option == option; });
  }

  const Query& query_;
  const std::vector<Offer>& offers_;
  std::vector<Ban> bans_;
  std::vector<Verdict> verdicts_;
};

}  // namespace

Table Table::overridden_by(const Table& user) const {
  Table table = user;
  table.rules_.insert(table.rules_.end(), rules_.begin(), rules_.end());
  return table;
}

std::vector<Verdict> Table::rank(const Query& query, const std::vector<Offer>& offers) const {
  Ranking ranking(query, offers);
  for (const Rule& rule : rules_) {
    if (!matches_but_for_place(rule, query)) continue;
    if (rule.between && !query.between) {
      ranking.pass_over(rule);
    } else {
      ranking.apply(rule);
    }
  }
  return ranking.take();
}

std::vector<std::size_t> Table::edges() const {
  std::set<std::size_t> all;
  for (const Rule& rule : rules_) all.insert({rule.from, rule.to});
  all.erase(0);
  all.erase(SIZE_MAX);
  return {all.begin(), all.end()};
}

bool Table::asks_for_auto() const {
  return std::ranges::any_of(rules_, [](const Rule& rule) { return std::ranges::any_of(rule.options, is_auto); });
}

std::uint64_t Table::hash() const {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : to_text()) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace roda::select
