// The rules of a table as text: table.h has the grammar.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "algorithms/select/table.h"

namespace roda::select {

// Stops at the first mistake: false, with *error "rule 2 (line 3, column 14): unknown algorithm 'rign' for allreduce;
// ...".
bool parse_rules(std::string_view text, std::vector<Table::Rule>* rules, std::string* error);

// "allreduce@host:0-64K[2-16]": what a rule is for.
std::string selector_text(const Table::Rule& rule);
std::string rule_text(const Table::Rule& rule);

}  // namespace roda::select
