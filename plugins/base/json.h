// Just enough JSON to print reports: quoting. Documents are put together by hand where they are written.
#pragma once

#include <string>
#include <string_view>

namespace roda {

// The text as a JSON string, quotes included. Bytes that are not ASCII pass through unchanged.
std::string json_quote(std::string_view text);

}  // namespace roda
