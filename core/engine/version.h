// The release that this is.
#pragma once

namespace roda::engine {

extern const char* const kVersion;

}  // namespace roda::engine
