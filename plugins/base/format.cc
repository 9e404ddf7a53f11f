// Here, and nowhere else: fmt's functions become part of this file, instead of being wanted from its library.
#define FMT_HEADER_ONLY
#include "plugins/base/format.h"

#include <fmt/format.h>

namespace roda {

std::string vformat(fmt::string_view text, fmt::format_args args) { return fmt::vformat(text, args); }

std::string json_quote(std::string_view text) {
  constexpr std::string_view kSpecial = "\"\\\n\t\r", kLetters = "\"\\ntr";
  std::string out = "\"";
  for (const char c : text) {
    if (const std::size_t at = kSpecial.find(c); at != kSpecial.npos) {
      out += {'\\', kLetters[at]};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += roda::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace roda
