// Here, and nowhere else: fmt's functions become part of this file, instead of being wanted from its library.
#define FMT_HEADER_ONLY
#include "plugins/base/format.h"

#include <fmt/format.h>

namespace roda {

std::string vformat(fmt::string_view text, fmt::format_args args) { return fmt::vformat(text, args); }

}  // namespace roda
