// Where a topology that was asked for by name lies.
#pragma once

#include <optional>
#include <string>

namespace roda::tools {

// A path is taken as it is. A bare name that is no file here ("dgx-h100") is one of those that were installed with this
// program. nullopt when it is neither, which is told with the names that there are.
std::optional<std::string> find_topology(const std::string& name);

}  // namespace roda::tools
