// The words of `roda-info --explain`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace roda::tools {

// Of what roda_explain_memory tells as JSON: first what runs, then the other candidates as a table. What can run comes
// before what can't, the quickest first as far as times are predicted. Without a newline at the end.
std::string in_words(const nlohmann::json& told);

}  // namespace roda::tools
