// Stands in for a header of Gloo's that its installation leaves out, though gloo/transport/tcp/unbound_buffer.h
// includes it. On the include path only where Gloo's own is not there.
//
// The names let headers be parsed. Objects with these inside are made and destroyed by the library; what matters here
// is their size, for classes that are derived from Gloo's (mesh.cc): that of a shared or weak pointer, as
// Gloo's.
#pragma once

#include <memory>

namespace gloo {

template <typename T>
class ShareableNonOwningPtr {
  std::shared_ptr<T*> pointer_;
};

template <typename T>
class NonOwningPtr {
  std::shared_ptr<T*> pointer_;
};

template <typename T>
class WeakNonOwningPtr {
 public:
  WeakNonOwningPtr() = default;
  explicit WeakNonOwningPtr(const ShareableNonOwningPtr<T>&) {}

 private:
  std::weak_ptr<T*> pointer_;
};

}  // namespace gloo
