// Rules as text, in the grammar of table.h.
#pragma once

#include <string>

#include "algorithms/select/table.h"

namespace roda::select {

// "allreduce@host:0-64K[2-16]": what a rule is for.
std::string selector_text(const Table::Rule& rule);
std::string rule_text(const Table::Rule& rule);

}  // namespace roda::select
