// The rules of a table as text: table.h has the grammar.

#include <algorithm>
#include <cctype>
#include <charconv>
#include <system_error>
#include <utility>

#include "algorithms/schedule/format.h"
#include "algorithms/schedule/user.h"
#include "algorithms/select/table.h"

namespace roda::select {

using schedule::Collective;
using schedule::collective_name;

namespace {

bool is_word_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// hierarchical: inside hosts, across them and inside again, or as few of these as the collective needs; every byte
// crosses between hosts once. Of every collective with data but Adasum. two_step: the whole collective inside hosts,
// then across them. torus: as hierarchical, over a rectangle. between_hosts: sums inside hosts, Adasum of these, back.
std::vector<const char*> compositions(Collective collective) {
  if (collective == Collective::kAllreduce) return {"hierarchical", "two_step", "torus"};
  if (collective == Collective::kAdasum) return {"between_hosts"};
  if (schedule::entry_of(collective).input == RODA_NOTHING) return {};
  return {"hierarchical"};
}

// For error messages: "a, b, c".
std::string list(const auto& names) {
  std::string all;
  for (const auto& name : names) all += (all.empty() ? "" : ", ") + std::string(name);
  return all.empty() ? "none" : all;
}

std::string list_of_algorithms(Collective collective) {
  std::vector<std::string> names{kNative};
  for (const schedule::Algorithm* algorithm : schedule::algorithms()) {
    if (algorithm->collective == collective) names.emplace_back(algorithm->name);
  }
  for (const auto& algorithm : schedule::user_algorithms()) {
    if (algorithm->collective() == collective) names.push_back(algorithm->name());
  }
  return list(names);
}

// Reads one table; used once. Stops at the first mistake. Whatever the grammar has no use for is refused where it
// stands.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) { advance(0); }

  bool parse(std::vector<Table::Rule>* rules) {
    std::vector<Table::Rule> result;
    while (at_ < text_.size()) {
      if (ends_rule()) {
        advance(1);
        continue;
      }
      Table::Rule rule;
      if (!parse_rule(&rule)) return false;
      result.push_back(std::move(rule));
      ++rule_;
    }
    *rules = std::move(result);
    return true;
  }

  const std::string& error() const { return error_; }

 private:
  // Goes on behind so many characters, and the blanks and the comment after them.
  void advance(std::size_t length) {
    if (length > 0 && text_[at_] == '\n') {
      ++line_;
      line_start_ = at_ + 1;
    }
    at_ += length;
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    if (at_ < text_.size() && text_[at_] == '#') at_ = std::min(text_.find('\n', at_), text_.size());
    const std::string_view rest = text_.substr(at_);
    word_ = rest.substr(0, static_cast<std::size_t>(std::ranges::find_if_not(rest, is_word_character) - rest.begin()));
  }
  bool is(char sign) const { return at_ < text_.size() && text_[at_] == sign; }
  bool ends_rule() const { return at_ == text_.size() || is('\n') || is(';'); }

  // What stands here, as an error message names it.
  std::string in_words() const {
    if (ends_rule()) return "the end of the rule";
    if (!word_.empty()) return "'" + std::string(word_) + "'";
    const char sign = text_[at_];
    return std::isprint(static_cast<unsigned char>(sign)) == 0 ? "a character out of place"
                                                               : std::string{'\'', sign, '\''};
  }

  bool parse_rule(Table::Rule* rule) {
    if (!parse_collective(rule)) return false;
    if (take('@') && !parse_place(rule)) return false;
    if (take(':') && !parse_sizes(rule)) return false;
    if (take('[') && !parse_ranks(rule)) return false;
    if (!expect('=', "the collective and its limits")) return false;
    do {
      if (!parse_option(rule)) return false;
    } while (take(','));
    return ends_rule() || fail("expected ',' or the end of the rule, not " + in_words());
  }

  bool parse_collective(Table::Rule* rule) {
    if (word_.empty()) return fail("expected a collective, not " + in_words());
    const auto& all = schedule::collectives();
    const auto found = std::ranges::find_if(all, [&](auto c) { return word_ == collective_name(c); });
    if (found == all.end()) {
      std::vector<const char*> names;
      for (const Collective known : all) names.push_back(collective_name(known));
      return fail("unknown collective " + in_words() + "; known: " + list(names));
    }
    rule->collective = *found;
    return take_word();
  }

  bool parse_place(Table::Rule* rule) {
    if (word_ == "host") rule->memory = Memory::kHost;
    if (word_ == "cuda") rule->memory = Memory::kCuda;
    rule->between = word_ == "between";
    if (!rule->memory && !rule->between) return fail("unknown place " + in_words() + "; known: host, cuda, between");
    return take_word();
  }

  bool parse_sizes(Table::Rule* rule) {
    const std::size_t start = at_;
    if (!parse_size(&rule->from) || !expect('-', "the smaller size") || !parse_size(&rule->to)) return false;
    return rule->from < rule->to || fail("the range of sizes is empty: it runs from <= bytes < to", start);
  }

  // A number with K, M or G behind it, or "inf".
  bool parse_size(std::size_t* size) {
    if (word_.empty()) return fail("expected a size, not " + in_words());
    std::string_view text = word_;
    if (text == "inf") {
      *size = SIZE_MAX;
      return take_word();
    }
    unsigned shift = 0;
    if (const auto unit = std::string_view("KMG").find(text.back()); unit != std::string_view::npos) {
      shift = 10 * (static_cast<unsigned>(unit) + 1);
      text.remove_suffix(1);
    }
    std::size_t number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (code == std::errc::result_out_of_range || (code == std::errc{} && number > (SIZE_MAX - 1) >> shift)) {
      return fail("the size " + in_words() + " is too large");
    }
    if (code != std::errc{} || end != text.data() + text.size()) {
      return fail("expected a size such as 64K or inf, not " + in_words());
    }
    *size = number << shift;
    return take_word();
  }

  // "2]", "2-8]" or "2-]"
  bool parse_ranks(Table::Rule* rule) {
    const std::size_t start = at_;
    if (!parse_rank(&rule->min_ranks)) return false;
    rule->max_ranks = rule->min_ranks;
    if (take('-')) {
      rule->max_ranks = INT32_MAX;
      if (!is(']') && !parse_rank(&rule->max_ranks)) return false;
    }
    if (rule->min_ranks > rule->max_ranks) return fail("the range of ranks is empty: both ends belong to it", start);
    return expect(']', "the number of ranks");
  }

  bool parse_rank(int* rank) {
    const auto [end, code] = std::from_chars(word_.data(), word_.data() + word_.size(), *rank);
    if (word_.empty() || code != std::errc{} || end != word_.data() + word_.size() || *rank < 1) {
      return fail("expected a number of ranks, 1 or more, not " + in_words());
    }
    return take_word();
  }

  bool parse_option(Table::Rule* rule) {
    const std::size_t start = at_;
    const bool forbidden = take('!');
    Option option;
    if (!parse_transport(&option.transport) || !expect('/', "the transport")) return false;
    if (!parse_algorithm(*rule, option.transport, &option.algorithm)) return false;
    if (std::ranges::find(rule->options, option) != rule->options.end()) {
      return fail(option.text() + " stands twice in the rule", start);
    }
    rule->options.push_back(std::move(option));
    rule->forbidden.push_back(forbidden);
    return true;
  }

  bool parse_transport(std::string* transport) {
    if (word_.empty() && !is('*')) return fail("expected a transport or '*', not " + in_words());
    *transport = word_.empty() ? kAnyTransport : word_;
    advance(transport->size());
    return true;
  }

  bool parse_algorithm(const Table::Rule& rule, const std::string& transport, std::string* algorithm) {
    if (word_.empty()) return fail("expected an algorithm, not " + in_words());
    const std::string name(word_);
    if (transport == kLevels && !is_composition(rule.collective, name)) {
      return fail("unknown composition '" + name + "' for " + collective_name(rule.collective) +
                  "; known: " + list(compositions(rule.collective)));
    }
    if (transport != kLevels && name != kNative && schedule::find_algorithm(rule.collective, name) == nullptr) {
      return fail("unknown algorithm '" + name + "' for " + collective_name(rule.collective) +
                  "; known: " + list_of_algorithms(rule.collective));
    }
    *algorithm = name;
    take_word();
    return !take('/') || parse_format(rule, transport, algorithm);
  }

  bool parse_format(const Table::Rule& rule, const std::string& transport, std::string* algorithm) {
    const bool is_auto = word_ == kAuto.substr(1);
    if (!is_auto && !schedule::find_format(word_)) {
      std::vector<const char*> names;
      for (int format = 1; format < RODA_WIRE_FORMAT_COUNT; ++format) names.push_back(roda_wire_formats[format].name);
      names.push_back(kAuto.data() + 1);
      return fail("unknown format " + in_words() + "; known: " + list(names));
    }
    const schedule::Algorithm* base = schedule::find_algorithm(rule.collective, *algorithm);
    if (transport == kLevels || base == nullptr) {
      return fail(*algorithm + " has no format of its own: name an algorithm of messages, as in allreduce@between = " +
                  "tcp/ring/" + std::string(word_));
    }
    const std::string reason = schedule::unformattable(*base);
    if (!reason.empty()) return fail(reason);
    const std::string format = is_auto ? roda_wire_formats[RODA_WIRE_BF16].name : std::string(word_);
    if (schedule::find_algorithm(rule.collective, *algorithm + "/" + format) == nullptr) {
      return fail("an algorithm of your own has no formats");
    }
    *algorithm += "/" + std::string(word_);
    return take_word();
  }

  bool take_word() {
    advance(word_.size());
    return true;
  }

  bool take(char sign) {
    if (!is(sign)) return false;
    advance(1);
    return true;
  }

  bool expect(char sign, const char* after) {
    return take(sign) || fail(std::string("expected '") + sign + "' after " + after + ", not " + in_words());
  }

  bool fail(const std::string& message) { return fail(message, at_); }
  bool fail(const std::string& message, std::size_t place) {
    error_ = "rule " + std::to_string(rule_) + " (line " + std::to_string(line_) + ", column " +
             std::to_string(place - line_start_ + 1) + "): " + message;
    return false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string_view word_;  // here; empty: something else stands here
  std::size_t line_start_ = 0;
  int line_ = 1;
  int rule_ = 1;
  std::string error_;
};

// In the largest unit that is exact.
std::string size_text(std::size_t size) {
  if (size == SIZE_MAX) return "inf";
  static constexpr const char* kUnits[] = {"", "K", "M", "G"};
  int unit = 0;
  while (unit < 3 && size != 0 && size % 1024 == 0) {
    size /= 1024;
    ++unit;
  }
  return std::to_string(size) + kUnits[unit];
}

std::string ranks_text(int least, int most) {
  if (least == most) return std::to_string(least);
  return std::to_string(least) + "-" + (most == INT32_MAX ? "" : std::to_string(most));
}

}  // namespace

bool is_composition(Collective collective, std::string_view name) {
  const auto all = compositions(collective);
  return std::ranges::find(all, name) != all.end();
}

std::optional<Table> Table::parse(const std::string& text, std::string* error) {
  Table table;
  Parser parser(text);
  if (parser.parse(&table.rules_)) return table;
  if (error != nullptr) *error = parser.error();
  return std::nullopt;
}

std::string Table::Rule::selector() const {
  std::string text = collective_name(collective);
  if (memory) text += *memory == Memory::kHost ? "@host" : "@cuda";
  if (between) text += "@between";
  if (from != 0 || to != SIZE_MAX) text += ":" + size_text(from) + "-" + size_text(to);
  if (min_ranks != 1 || max_ranks != INT32_MAX) text += "[" + ranks_text(min_ranks, max_ranks) + "]";
  return text;
}

std::string Table::bans() const {
  std::string text;
  for (const Rule& rule : rules_) {
    std::string options;
    for (std::size_t i = 0; i < rule.options.size(); ++i) {
      if (rule.forbidden[i]) options += (options.empty() ? " = !" : ", !") + rule.options[i].text();
    }
    if (!options.empty()) text += (text.empty() ? "" : "; ") + rule.selector() + options;
  }
  return text;
}

std::string Table::to_text() const {
  std::string text;
  for (const Rule& rule : rules_) {
    text += rule.selector() + " =";
    for (std::size_t i = 0; i < rule.options.size(); ++i) {
      text += std::string(i == 0 ? " " : ", ") + (rule.forbidden[i] ? "!" : "") + rule.options[i].text();
    }
    text += "\n";
  }
  return text;
}

}  // namespace roda::select
