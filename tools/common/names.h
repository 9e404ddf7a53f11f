// Names on command lines for the numbers of the C API. Case, '-' and '_' do not matter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace roda::tools {

std::optional<std::int32_t> parse_collective(const std::string& name);
std::optional<std::int32_t> parse_dtype(const std::string& name);
std::optional<std::int32_t> parse_reduce_op(const std::string& name);

// For who gave another name: "no collective: foo (one of allreduce, allgather, ...)".
std::string no_collective(const std::string& name);

// "allreduce", as every tool prints it.
std::string collective_text(std::int32_t collective);

// Collectives that move a caller's data or synchronise, in the order they are printed.
const std::vector<std::int32_t>& measurable_collectives();

// "a,b , c" -> {"a", "b", "c"}; empty parts are dropped.
std::vector<std::string> split_list(const std::string& text);

}  // namespace roda::tools
