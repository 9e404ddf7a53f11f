#include "plugins/loader/algorithms_table.h"

#include <string>

namespace roda::plugins {
namespace {

Status check_algorithm(const roda_algorithm* algorithm, int number) {
  const std::string which = "its algorithm number " + std::to_string(number);
  if (algorithm == nullptr || algorithm->struct_size < sizeof *algorithm) {
    return Status::invalid(which + " is missing or too short");
  }
  const bool is_complete = algorithm->name != nullptr && algorithm->summary != nullptr &&
                           algorithm->accepts != nullptr && algorithm->make != nullptr;
  return is_complete ? Status() : Status::invalid(which + " leaves an entry empty");
}

}  // namespace

Status check_algorithms(const roda_algorithms* table) {
  if (table == nullptr) return Status::invalid("its entry returned no table");
  if (table->abi_version != RODA_ABI_VERSION || table->struct_size < sizeof *table) {
    return Status::invalid("its table has another ABI version or is too short");
  }
  const bool is_complete = table->name != nullptr && table->description != nullptr && table->num_algorithms >= 0 &&
                           (table->num_algorithms == 0 || table->algorithms != nullptr);
  if (!is_complete) return Status::invalid("its table leaves an entry empty");
  for (int i = 0; i < table->num_algorithms; ++i) RODA_RETURN_IF_ERROR(check_algorithm(table->algorithms[i], i));
  return {};
}

}  // namespace roda::plugins
