#include "algorithms/select/lexer.h"

#include <algorithm>
#include <cctype>

namespace roda::select {
namespace {

bool is_word_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

}  // namespace

std::string Token::in_words() const {
  if (kind == Kind::kEndOfRule || kind == Kind::kEnd) return "the end of the rule";
  if (kind == Kind::kSign && std::isprint(static_cast<unsigned char>(text[0])) == 0) return "a character out of place";
  return "'" + std::string(text) + "'";
}

void Lexer::skip_blanks_and_comment() {
  while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  if (at_ < text_.size() && text_[at_] == '#') at_ = std::min(text_.find('\n', at_), text_.size());
}

Token Lexer::take(Token::Kind kind, std::size_t length) {
  const Token token{kind, text_.substr(at_, length), line_, static_cast<int>(at_ - line_start_) + 1};
  at_ += length;
  return token;
}

Token Lexer::next() {
  skip_blanks_and_comment();
  if (at_ == text_.size()) return take(Token::Kind::kEnd, 0);
  const char c = text_[at_];
  if (c == '\n') {
    const Token token = take(Token::Kind::kEndOfRule, 1);
    ++line_;
    line_start_ = at_;
    return token;
  }
  if (c == ';') return take(Token::Kind::kEndOfRule, 1);
  if (!is_word_character(c)) return take(Token::Kind::kSign, 1);
  const auto end = std::find_if_not(text_.begin() + static_cast<std::ptrdiff_t>(at_), text_.end(), is_word_character);
  return take(Token::Kind::kWord, static_cast<std::size_t>(end - text_.begin()) - at_);
}

}  // namespace roda::select
