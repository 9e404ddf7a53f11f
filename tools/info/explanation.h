// The words of `roda-info --explain`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace roda::tools {

// The answer of roda_explain_memory (JSON) in words: first the algorithm that runs, then the other candidates as a
// table. Those that can run come first, the quickest before the others as far as times are predicted. Without a newline
// at the end.
std::string in_words(const nlohmann::json& told);

}  // namespace roda::tools
