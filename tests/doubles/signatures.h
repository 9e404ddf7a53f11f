// Compares function types of our own with those of a vendor's header, as far as a call can tell them apart.
#pragma once

#include <type_traits>

namespace roda::doubles {

// Both pointers, or numbers of the same size.
template <typename A, typename B>
inline constexpr bool kPassAlike = std::is_pointer_v<A> == std::is_pointer_v<B> && sizeof(A) == sizeof(B);

template <typename Ours, typename Theirs>
struct CallAlike : std::false_type {};
template <typename R, typename... A, typename S, typename... B>
struct CallAlike<R (*)(A...), S (*)(B...)> {
  static constexpr bool check() {
    if constexpr (sizeof...(A) != sizeof...(B)) {
      return false;
    } else {
      return kPassAlike<R, S> && (kPassAlike<A, B> && ...);
    }
  }
  static constexpr bool value = check();
};

}  // namespace roda::doubles
