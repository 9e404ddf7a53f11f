#include "algorithms/select/parser.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "algorithms/select/names.h"

namespace roda::select {

bool Parser::parse(std::vector<Table::Rule>* rules) {
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

bool Parser::parse_rule(Table::Rule* rule) {
  if (!parse_collective(rule)) return false;
  if (take('@') && !parse_memory(rule)) return false;
  if (take(':') && !parse_sizes(rule)) return false;
  if (take('[') && !parse_ranks(rule)) return false;
  if (!expect('=', "the collective and its limits")) return false;
  do {
    if (!parse_option(rule)) return false;
  } while (take(','));
  if (!at_end_of_rule()) return fail(token_, "expected ',' or the end of the rule, not " + token_.in_words());
  return true;
}

bool Parser::parse_collective(Table::Rule* rule) {
  if (token_.kind != Token::Kind::kWord) return fail(token_, "expected a collective, not " + token_.in_words());
  const std::optional<schedule::Collective> collective = collective_named(token_.text);
  if (!collective) {
    return fail(token_, "unknown collective " + token_.in_words() + "; known: " + list_of_collectives());
  }
  rule->collective = *collective;
  advance();
  return true;
}

bool Parser::parse_memory(Table::Rule* rule) {
  rule->memory = memory_named(token_.text);
  if (!rule->memory) return fail(token_, "unknown memory kind " + token_.in_words() + "; known: host, cuda");
  advance();
  return true;
}

bool Parser::parse_sizes(Table::Rule* rule) {
  const Token start = token_;
  if (!parse_size(&rule->from) || !expect('-', "the smaller size") || !parse_size(&rule->to)) return false;
  if (rule->from >= rule->to) return fail(start, "the range of sizes is empty: it runs from <= bytes < to");
  return true;
}

// A number with K, M or G behind it, or "inf".
bool Parser::parse_size(std::size_t* size) {
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
bool Parser::parse_ranks(Table::Rule* rule) {
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

bool Parser::parse_rank(int* rank) {
  const std::string_view text = token_.text;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), *rank);
  if (token_.kind != Token::Kind::kWord || code != std::errc{} || end != text.data() + text.size() || *rank < 1) {
    return fail(token_, "expected a number of ranks, 1 or more, not " + token_.in_words());
  }
  advance();
  return true;
}

bool Parser::parse_option(Table::Rule* rule) {
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

bool Parser::parse_transport(std::string* transport) {
  if (token_.kind != Token::Kind::kWord && !token_.is('*')) {
    return fail(token_, "expected a transport or '*', not " + token_.in_words());
  }
  *transport = token_.text;
  advance();
  return true;
}

bool Parser::parse_algorithm(const Table::Rule& rule, const std::string& transport, std::string* algorithm) {
  if (token_.kind != Token::Kind::kWord) return fail(token_, "expected an algorithm, not " + token_.in_words());
  const std::string name(token_.text);
  if (transport == kLevels && !is_composition(rule.collective, name)) {
    return fail(token_, "unknown composition '" + name + "' for " + schedule::collective_name(rule.collective) +
                            "; known: " + list_of_compositions(rule.collective));
  }
  if (transport != kLevels && name != kNative && schedule::find_algorithm(rule.collective, name) == nullptr) {
    return fail(token_, "unknown algorithm '" + name + "' for " + schedule::collective_name(rule.collective) +
                            "; known: " + list_of_algorithms(rule.collective));
  }
  *algorithm = name;
  advance();
  return true;
}

bool Parser::at_end_of_rule() const {
  return token_.kind == Token::Kind::kEnd || token_.kind == Token::Kind::kEndOfRule;
}

bool Parser::take(char sign) {
  if (!token_.is(sign)) return false;
  advance();
  return true;
}

bool Parser::expect(char sign, const char* after) {
  if (take(sign)) return true;
  return fail(token_, std::string("expected '") + sign + "' after " + after + ", not " + token_.in_words());
}

bool Parser::fail(const Token& at, const std::string& message) {
  error_ = "rule " + std::to_string(rule_) + " (line " + std::to_string(at.line) + ", column " +
           std::to_string(at.column) + "): " + message;
  return false;
}

}  // namespace roda::select
