// Faults that mutants.py writes into the sources, all into one build; RODA_MUTANT says which one is made. Included by
// the compiler before all else.
#pragma once

#ifdef __cplusplus

#include <cstdlib>

namespace mutants {

inline const int made = std::getenv("RODA_MUTANT") == nullptr ? 0 : std::atoi(std::getenv("RODA_MUTANT"));
inline bool is(int number) { return number == made; }

// `a < at<7> < b` is a < b; or a <= b where 7 is made.
template <int number>
struct Mark {};
template <int number>
inline constexpr Mark<number> at;
template <typename A, int number>
struct Left {
  const A& value;
};

#define RODA_TURN(sign, turned)                                       \
  template <typename A, int number>                                   \
  constexpr Left<A, number> operator sign(const A& a, Mark<number>) { \
    return {a};                                                       \
  }                                                                   \
  template <typename A, int number, typename B>                       \
  bool operator sign(Left<A, number> a, const B& b) {                 \
    return is(number) ? a.value turned b : a.value sign b;            \
  }
RODA_TURN(<, <=)
RODA_TURN(<=, <)
RODA_TURN(>, >=)
RODA_TURN(>=, >)
RODA_TURN(==, !=)
RODA_TURN(!=, ==)
#undef RODA_TURN

}  // namespace mutants

#endif
