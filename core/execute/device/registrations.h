// The groups that a buffer of the engine's is registered with: once for each, until the buffer goes.
//
// Registering is an offer: a group that can't, or doesn't, works on the memory as it is. One that must not go on after
// a failure (because its peers rely on the registration) ends by itself.
//
// Threads: the holder of the engine's baton.
#pragma once

#include <roda/abi/types.h>

#include <vector>

namespace roda::execute {

class TransportGroup;

class Registrations {
 public:
  Registrations() = default;
  Registrations(Registrations&& other) noexcept = default;
  Registrations& operator=(Registrations&&) = delete;
  void swap(Registrations& other) noexcept { entries_.swap(other.entries_); }
  ~Registrations() { clear(); }

  // With that group too, unless it has been asked already. The group outlives this, or is told by clear() before it
  // goes; the memory stays where it is until clear().
  void add(TransportGroup& group, const roda_memory& memory);
  // Whether clear() would return at once: a library may have to end something else first.
  bool can_clear() const;
  // No work on the memory may be under way.
  void clear();
  // The same with that group alone, which is about to go.
  void remove(TransportGroup& group);

 private:
  struct Entry {
    TransportGroup* group;
    roda_memory memory;
    bool is_registered;  // false: the group didn't want it
  };
  std::vector<Entry> entries_;
};

}  // namespace roda::execute
