// Where a topology that was asked for by name lies.
#pragma once

#include <string>

namespace roda::tools {

// A path is taken as it is. A bare name that is no file here ("dgx-h100") is one of those that were installed with this
// program; what is found nowhere comes back unchanged, for the error that names it.
std::string find_topology(const std::string& name);

}  // namespace roda::tools
