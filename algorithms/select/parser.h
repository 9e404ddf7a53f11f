// From the text of a table to its rules.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "algorithms/select/lexer.h"
#include "algorithms/select/table.h"

namespace roda::select {

// Reads one table; used once. Stops at the first mistake.
class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text), token_(lexer_.next()) {}

  // False on a mistake, with error() "rule 2 (line 3, column 14): unknown algorithm 'rign' for allreduce; ...".
  bool parse(std::vector<Table::Rule>* rules);
  const std::string& error() const { return error_; }

 private:
  bool parse_rule(Table::Rule* rule);
  bool parse_collective(Table::Rule* rule);
  bool parse_memory(Table::Rule* rule);
  bool parse_sizes(Table::Rule* rule);
  bool parse_size(std::size_t* size);
  bool parse_ranks(Table::Rule* rule);
  bool parse_rank(int* rank);
  bool parse_option(Table::Rule* rule);
  bool parse_transport(std::string* transport);
  bool parse_algorithm(const Table::Rule& rule, const std::string& transport, std::string* algorithm);

  void advance() { token_ = lexer_.next(); }
  bool at_end_of_rule() const;
  // Takes the sign if it is next.
  bool take(char sign);
  bool expect(char sign, const char* after);
  bool fail(const Token& at, const std::string& message);

  Lexer lexer_;
  Token token_;
  int rule_ = 1;
  std::string error_;
};

}  // namespace roda::select
