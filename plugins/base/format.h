// Text from values, fmt's way, checked at compile time:
//
//   roda::format("{} of {} ranks: {:.3g} s", here, size, seconds)
//
// fmt is used header-only, so that nothing needs its library where it runs, and its formatters cost seconds in each
// file that compiles them. Only format.cc does; everything else includes this, which needs fmt's declarations alone.
// Any thread. Throws std::bad_alloc only: a format that does not fit its arguments does not compile.
#pragma once

#if __has_include(<fmt/base.h>)
#include <fmt/base.h>  // from 11 on; core.h is all of format.h there
#else
#include <fmt/core.h>
#endif

#include <string>
#include <string_view>

namespace roda {

std::string vformat(fmt::string_view text, fmt::format_args args);

template <typename... Args>
std::string format(fmt::format_string<Args...> text, Args&&... args) {
  return roda::vformat(text, fmt::make_format_args(args...));
}

// Each as `{}` gives it, the separator between them.
template <typename Range>
std::string join(const Range& range, std::string_view separator) {
  std::string all;
  bool is_first = true;
  for (const auto& each : range) {
    if (!is_first) all += separator;
    is_first = false;
    all += roda::format("{}", each);
  }
  return all;
}

// The text as a JSON string, quotes included. Bytes that are not ASCII pass through unchanged.
std::string json_quote(std::string_view text);

}  // namespace roda
