// The words and signs of a table's text. The grammar is in table.h.
#pragma once

#include <string>
#include <string_view>

namespace roda::select {

struct Token {
  enum class Kind { kWord, kSign, kEndOfRule, kEnd };
  Kind kind = Kind::kEnd;
  std::string_view text;  // of the word; one character for a sign
  int line = 1;
  int column = 1;

  bool is(char sign) const { return kind == Kind::kSign && text[0] == sign; }
  // As an error message names it.
  std::string in_words() const;
};

// Reads `text`, which outlives the tokens. Every character makes a token, a space or a comment: a character that the
// grammar has no use for comes out as a sign, for the parser to refuse.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  Token next();

 private:
  void skip_blanks_and_comment();
  Token take(Token::Kind kind, std::size_t length);

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_start_ = 0;
  int line_ = 1;
};

}  // namespace roda::select
