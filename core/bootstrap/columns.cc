#include "core/bootstrap/columns.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <ranges>

#include "plugins/base/format.h"

namespace roda {
namespace {

constexpr std::size_t kMostRanks = 64;  // of a host whose ranks are looked for one host before

// How many words from `at` on are those that lie `distance` before.
std::size_t repeated(const std::vector<std::string>& words, std::size_t at, std::size_t distance) {
  std::size_t count = 0;
  while (at + count < words.size() && words[at + count] == words[at + count - distance]) ++count;
  return count;
}

// *behind: the character behind the number, which is taken too.
bool take_number(std::string_view* text, std::size_t* number, char* behind) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc() || end == text->data() + text->size()) return false;
  *behind = *end;
  text->remove_prefix(static_cast<std::size_t>(end - text->data()) + 1);
  return true;
}

}  // namespace

// "<bytes>:<the rest>" or "<bytes>.<bytes>:<the rest>", of the beginning and the end of the word written before, or
// "@<distance>*<count>", each with a space behind it.
std::string to_column(const std::vector<std::string>& words) {
  std::string text;
  std::map<std::string_view, std::size_t> last_at;
  std::string_view before;
  for (std::size_t i = 0, seen = 0; i < words.size();) {
    for (; seen < i; ++seen) last_at[words[seen]] = seen;
    std::size_t distance = 0, count = 0;
    const auto consider = [&](std::size_t candidate) {
      const std::size_t found = repeated(words, i, candidate);
      if (found > count) distance = candidate, count = found;
    };
    if (const auto last = last_at.find(words[i]); last != last_at.end()) {
      consider(i - last->second);
      for (std::size_t candidate = 1; candidate <= std::min(i, kMostRanks); ++candidate) consider(candidate);
    }
    if (count > 0) {
      text += roda::format("@{}*{} ", distance, count);
      i += count;
      continue;
    }
    const std::string_view word = words[i++];
    const auto begun = static_cast<std::size_t>(std::ranges::mismatch(word, before).in1 - word.begin());
    const std::string_view rest = word.substr(begun), old = before.substr(begun);
    const auto ended = static_cast<std::size_t>(
        std::ranges::mismatch(rest | std::views::reverse, old | std::views::reverse).in1 - rest.rbegin());
    text += roda::format("{}", begun) + (ended > 0 ? roda::format(".{}", ended) : std::string());
    text += roda::format(":{} ", rest.substr(0, rest.size() - ended));
    before = word;
  }
  return text + "\n";
}

bool take_column(std::string_view* text, std::size_t count, std::vector<std::string>* words) {
  std::string before;
  words->clear();
  while (!text->empty() && text->front() != '\n') {
    std::size_t first = 0, second = 0;
    char behind = 0;
    if (text->front() == '@') {
      text->remove_prefix(1);
      if (!take_number(text, &first, &behind) || !take_number(text, &second, &behind)) return false;
      if (first == 0 || first > words->size() || second > count - words->size()) return false;
      for (; second > 0; --second) words->push_back((*words)[words->size() - first]);
      continue;
    }
    if (!take_number(text, &first, &behind) || (behind == '.' && !take_number(text, &second, &behind))) return false;
    const std::size_t end = text->find(' ');
    if (end == std::string_view::npos || words->size() == count) return false;
    if (first > before.size() || second > before.size() - first) return false;
    before = before.substr(0, first) + std::string(text->substr(0, end)) + before.substr(before.size() - second);
    words->push_back(before);
    text->remove_prefix(end + 1);
  }
  text->remove_prefix(std::min<std::size_t>(text->size(), 1));
  return words->size() == count;
}

}  // namespace roda
