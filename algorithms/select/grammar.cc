#include "algorithms/select/grammar.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "algorithms/schedule/user.h"

namespace roda::select {

using schedule::Collective;
using schedule::collective_name;

namespace {

bool is_word_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

struct Token {
  enum class Kind { kWord, kSign, kEndOfRule, kEnd };
  Kind kind = Kind::kEnd;
  std::string_view text;  // of the word; one character for a sign
  int line = 1;
  int column = 1;

  bool is(char sign) const { return kind == Kind::kSign && text[0] == sign; }
  bool ends_rule() const { return kind == Kind::kEnd || kind == Kind::kEndOfRule; }
  // As an error message names it.
  std::string in_words() const {
    if (ends_rule()) return "the end of the rule";
    if (kind == Kind::kSign && std::isprint(static_cast<unsigned char>(text[0])) == 0) {
      return "a character out of place";
    }
    return "'" + std::string(text) + "'";
  }
};

// Reads `text`, which outlives the tokens. Every character makes a token, a space or a comment: a character that the
// grammar has no use for comes out as a sign, for the parser to refuse.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Token next() {
    skip_blanks_and_comment();
    if (at_ == text_.size()) return take(Token::Kind::kEnd, 0);
    const char c = text_[at_];
    if (c == '\n') {
      const Token token = take(Token::Kind::kEndOfRule, 1);
      ++line_;
      line_start_ = at_;
      return token;
    }
    if (c == ';') return take(Token::Kind::kEndOfRule, 1);
    if (!is_word_character(c)) return take(Token::Kind::kSign, 1);
    const auto end = std::find_if_not(text_.begin() + static_cast<std::ptrdiff_t>(at_), text_.end(), is_word_character);
    return take(Token::Kind::kWord, static_cast<std::size_t>(end - text_.begin()) - at_);
  }

 private:
  void skip_blanks_and_comment() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    if (at_ < text_.size() && text_[at_] == '#') at_ = std::min(text_.find('\n', at_), text_.size());
  }

  Token take(Token::Kind kind, std::size_t length) {
    const Token token{kind, text_.substr(at_, length), line_, static_cast<int>(at_ - line_start_) + 1};
    at_ += length;
    return token;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_start_ = 0;
  int line_ = 1;
};

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

// Reads one table; used once. Stops at the first mistake.
class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text), token_(lexer_.next()) {}

  bool parse(std::vector<Table::Rule>* rules) {
    std::vector<Table::Rule> result;
    while (token_.kind != Token::Kind::kEnd) {
      if (token_.kind == Token::Kind::kEndOfRule) {
        advance();
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
  void advance() { token_ = lexer_.next(); }

  bool parse_rule(Table::Rule* rule) {
    if (!parse_collective(rule)) return false;
    if (take('@') && !parse_memory(rule)) return false;
    if (take(':') && !parse_sizes(rule)) return false;
    if (take('[') && !parse_ranks(rule)) return false;
    if (!expect('=', "the collective and its limits")) return false;
    do {
      if (!parse_option(rule)) return false;
    } while (take(','));
    if (!token_.ends_rule()) return fail(token_, "expected ',' or the end of the rule, not " + token_.in_words());
    return true;
  }

  bool parse_collective(Table::Rule* rule) {
    if (token_.kind != Token::Kind::kWord) return fail(token_, "expected a collective, not " + token_.in_words());
    const auto& all = schedule::collectives();
    const auto found = std::find_if(all.begin(), all.end(), [&](auto c) { return token_.text == collective_name(c); });
    if (found == all.end()) {
      std::vector<const char*> names;
      for (const Collective known : all) names.push_back(collective_name(known));
      return fail(token_, "unknown collective " + token_.in_words() + "; known: " + list(names));
    }
    rule->collective = *found;
    advance();
    return true;
  }

  bool parse_memory(Table::Rule* rule) {
    if (token_.text == "host") rule->memory = Memory::kHost;
    if (token_.text == "cuda") rule->memory = Memory::kCuda;
    if (!rule->memory) return fail(token_, "unknown memory kind " + token_.in_words() + "; known: host, cuda");
    advance();
    return true;
  }

  bool parse_sizes(Table::Rule* rule) {
    const Token start = token_;
    if (!parse_size(&rule->from) || !expect('-', "the smaller size") || !parse_size(&rule->to)) return false;
    if (rule->from >= rule->to) return fail(start, "the range of sizes is empty: it runs from <= bytes < to");
    return true;
  }

  // A number with K, M or G behind it, or "inf".

  bool parse_size(std::size_t* size) {
    if (token_.kind != Token::Kind::kWord) return fail(token_, "expected a size, not " + token_.in_words());
    std::string_view text = token_.text;
    if (text == "inf") {
      *size = SIZE_MAX;
      advance();
      return true;
    }
    unsigned shift = 0;
    if (const auto unit = std::string_view("KMG").find(text.back()); unit != std::string_view::npos) {
      shift = 10 * (static_cast<unsigned>(unit) + 1);
      text.remove_suffix(1);
    }
    std::size_t number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (code == std::errc::result_out_of_range || (code == std::errc{} && number > (SIZE_MAX - 1) >> shift)) {
      return fail(token_, "the size " + token_.in_words() + " is too large");
    }
    if (code != std::errc{} || end != text.data() + text.size()) {
      return fail(token_, "expected a size such as 64K or inf, not " + token_.in_words());
    }
    *size = number << shift;
    advance();
    return true;
  }

  // "2]", "2-8]" or "2-]"

  bool parse_ranks(Table::Rule* rule) {
    const Token start = token_;
    if (!parse_rank(&rule->min_ranks)) return false;
    rule->max_ranks = rule->min_ranks;
    if (take('-')) {
      rule->max_ranks = INT32_MAX;
      if (!token_.is(']') && !parse_rank(&rule->max_ranks)) return false;
    }
    if (rule->min_ranks > rule->max_ranks) return fail(start, "the range of ranks is empty: both ends belong to it");
    return expect(']', "the number of ranks");
  }

  bool parse_rank(int* rank) {
    const std::string_view text = token_.text;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), *rank);
    if (token_.kind != Token::Kind::kWord || code != std::errc{} || end != text.data() + text.size() || *rank < 1) {
      return fail(token_, "expected a number of ranks, 1 or more, not " + token_.in_words());
    }
    advance();
    return true;
  }

  bool parse_option(Table::Rule* rule) {
    const Token start = token_;
    const bool forbidden = take('!');
    Option option;
    if (!parse_transport(&option.transport) || !expect('/', "the transport")) return false;
    if (!parse_algorithm(*rule, option.transport, &option.algorithm)) return false;
    if (std::find(rule->options.begin(), rule->options.end(), option) != rule->options.end()) {
      return fail(start, option.transport + "/" + option.algorithm + " stands twice in the rule");
    }
    rule->options.push_back(std::move(option));
    rule->forbidden.push_back(forbidden);
    return true;
  }

  bool parse_transport(std::string* transport) {
    if (token_.kind != Token::Kind::kWord && !token_.is('*')) {
      return fail(token_, "expected a transport or '*', not " + token_.in_words());
    }
    *transport = token_.text;
    advance();
    return true;
  }

  bool parse_algorithm(const Table::Rule& rule, const std::string& transport, std::string* algorithm) {
    if (token_.kind != Token::Kind::kWord) return fail(token_, "expected an algorithm, not " + token_.in_words());
    const std::string name(token_.text);
    if (transport == kLevels && !is_composition(rule.collective, name)) {
      return fail(token_, "unknown composition '" + name + "' for " + collective_name(rule.collective) +
                              "; known: " + list(compositions(rule.collective)));
    }
    if (transport != kLevels && name != kNative && schedule::find_algorithm(rule.collective, name) == nullptr) {
      return fail(token_, "unknown algorithm '" + name + "' for " + collective_name(rule.collective) +
                              "; known: " + list_of_algorithms(rule.collective));
    }
    *algorithm = name;
    advance();
    return true;
  }

  bool take(char sign) {
    if (!token_.is(sign)) return false;
    advance();
    return true;
  }

  bool expect(char sign, const char* after) {
    if (take(sign)) return true;
    return fail(token_, std::string("expected '") + sign + "' after " + after + ", not " + token_.in_words());
  }

  bool fail(const Token& at, const std::string& message) {
    error_ = "rule " + std::to_string(rule_) + " (line " + std::to_string(at.line) + ", column " +
             std::to_string(at.column) + "): " + message;
    return false;
  }

  Lexer lexer_;
  Token token_;
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
  return std::find(all.begin(), all.end(), name) != all.end();
}

bool parse_rules(std::string_view text, std::vector<Table::Rule>* rules, std::string* error) {
  Parser parser(text);
  const bool is_right = parser.parse(rules);
  if (!is_right && error != nullptr) *error = parser.error();
  return is_right;
}

std::string selector_text(const Table::Rule& rule) {
  std::string text = collective_name(rule.collective);
  if (rule.memory) text += *rule.memory == Memory::kHost ? "@host" : "@cuda";
  if (rule.from != 0 || rule.to != SIZE_MAX) text += ":" + size_text(rule.from) + "-" + size_text(rule.to);
  if (rule.min_ranks != 1 || rule.max_ranks != INT32_MAX)
    text += "[" + ranks_text(rule.min_ranks, rule.max_ranks) + "]";
  return text;
}

std::string rule_text(const Table::Rule& rule) {
  std::string text = selector_text(rule) + " =";
  for (std::size_t i = 0; i < rule.options.size(); ++i) {
    text += i == 0 ? " " : ", ";
    if (rule.forbidden[i]) text += "!";
    text += rule.options[i].transport + "/" + rule.options[i].algorithm;
  }
  return text;
}

}  // namespace roda::select
