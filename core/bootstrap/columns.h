// Lists of words, many of which are alike, as short texts: where others of the list repeat, and what differs.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace roda {

// One line. Words are of any bytes but white space. A word that begins and ends as the one written before it leaves
// that out, and stretches that lie a distance before are named: ranks of hosts that are alike take room once.
std::string to_column(const std::vector<std::string>& words);

// Takes the text's first line, of `count` words. False: it is none.
bool take_column(std::string_view* text, std::size_t count, std::vector<std::string>* words);

}  // namespace roda
