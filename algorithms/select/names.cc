#include "algorithms/select/names.h"

#include <algorithm>
#include <array>

#include "algorithms/schedule/user.h"

namespace roda::select {
namespace {

using schedule::Collective;

struct Composition {
  Collective collective;
  const char* name;
};

// hierarchical: inside hosts, across them and inside again, or as few of these as the collective needs; every byte
// crosses between hosts once. Of every collective with data but Adasum.
constexpr const char* kHierarchical = "hierarchical";

// two_step: the whole collective inside hosts, then across them. torus: as hierarchical, over a rectangle.
// between_hosts: sums inside hosts, Adasum of these, and back.
constexpr std::array kOthers = {Composition{Collective::kAllreduce, "two_step"},
                                Composition{Collective::kAllreduce, "torus"},
                                Composition{Collective::kAdasum, "between_hosts"}};

bool is_hierarchical(Collective collective) {
  return collective != Collective::kAdasum && schedule::entry_of(collective).input != RODA_NOTHING;
}

}  // namespace

bool is_composition(Collective collective, std::string_view name) {
  return (name == kHierarchical && is_hierarchical(collective)) ||
         std::any_of(kOthers.begin(), kOthers.end(),
                     [&](const Composition& c) { return c.collective == collective && name == c.name; });
}

std::string list_of_compositions(Collective collective) {
  std::string list = is_hierarchical(collective) ? kHierarchical : "";
  for (const Composition& c : kOthers) {
    if (c.collective == collective) list += (list.empty() ? "" : ", ") + std::string(c.name);
  }
  return list.empty() ? "none" : list;
}

std::optional<Collective> collective_named(std::string_view name) {
  for (const Collective collective : schedule::collectives()) {
    if (name == schedule::collective_name(collective)) return collective;
  }
  return std::nullopt;
}

std::optional<Memory> memory_named(std::string_view name) {
  for (const Memory memory : {Memory::kHost, Memory::kCuda}) {
    if (name == memory_name(memory)) return memory;
  }
  return std::nullopt;
}

const char* memory_name(Memory memory) { return memory == Memory::kHost ? "host" : "cuda"; }

std::string list_of_collectives() {
  std::string list;
  for (const Collective collective : schedule::collectives()) {
    list += (list.empty() ? "" : ", ") + std::string(schedule::collective_name(collective));
  }
  return list;
}

std::string list_of_algorithms(Collective collective) {
  std::string list = kNative;
  for (const schedule::Algorithm* algorithm : schedule::algorithms()) {
    if (algorithm->collective == collective) list += std::string(", ") + algorithm->name;
  }
  for (const auto& algorithm : schedule::user_algorithms()) {
    if (algorithm->collective() == collective) list += ", " + algorithm->name();
  }
  return list;
}

}  // namespace roda::select
