// Byte counts as people write and read them. K, M and G are powers of 1024, with or without "iB" or "B".
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace roda::tools {

// "4096", "4K", "64MiB", "1.5 GB"; nullopt when it is no size.
std::optional<std::size_t> parse_size(const std::string& text);

// For who gave another text: "no size: 4X (bytes, with K, M, G or T after them as in 64K and 1.5MiB)".
std::string no_size(const std::string& text);

// "4 KiB", "64 MiB"; plain bytes where no unit fits exactly.
std::string format_size(std::size_t bytes);

// The same as one types it: "4", "64M".
std::string typed_size(std::size_t bytes);

}  // namespace roda::tools
