// What `roda-info` alone prints: half a screen of what counts, and where the rest is.
#pragma once

#include <string>

namespace roda::tools {

std::string overview();

}  // namespace roda::tools
