#include "core/engine/version.h"

namespace roda::engine {

const char* const kVersion = RODA_VERSION;

}  // namespace roda::engine
