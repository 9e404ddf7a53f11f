// Stands in for a header of Gloo's that its installation leaves out, though gloo/transport/tcp/unbound_buffer.h
// includes it. On the include path only where Gloo's own is not there.
//
// Nothing depends on what is in it: the names let that header be parsed. Buffers are made and destroyed by the library,
// and the members that polled.h reads lie before the one of a type from here.
#pragma once

namespace gloo {

template <typename T>
class ShareableNonOwningPtr {};

template <typename T>
class WeakNonOwningPtr {
 public:
  explicit WeakNonOwningPtr(const ShareableNonOwningPtr<T>&) {}
};

}  // namespace gloo
