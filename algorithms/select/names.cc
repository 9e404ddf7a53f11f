#include "algorithms/select/names.h"

#include <algorithm>
#include <array>

#include "algorithms/schedule/user.h"

namespace roda::select {
namespace {

using schedule::Collective;

constexpr std::array kCollectives = {Collective::kAllreduce,    Collective::kAllgather, Collective::kBroadcast,
                                     Collective::kAdasum,       Collective::kAlltoall,  Collective::kBarrier,
                                     Collective::kReduceScatter};

struct Composition {
  Collective collective;
  const char* name;
};

// hierarchical: inside hosts, across them and inside again, or as few of these as the collective needs; every byte
// crosses between hosts once. two_step: the whole collective inside hosts, then across them. torus: as hierarchical,
// over a rectangle. between_hosts: sums inside hosts, Adasum of these, and back.
constexpr std::array kCompositions = {
    Composition{Collective::kAllreduce, "hierarchical"}, Composition{Collective::kAllreduce, "two_step"},
    Composition{Collective::kAllreduce, "torus"},        Composition{Collective::kBroadcast, "hierarchical"},
    Composition{Collective::kAllgather, "hierarchical"}, Composition{Collective::kReduceScatter, "hierarchical"},
    Composition{Collective::kAlltoall, "hierarchical"},  Composition{Collective::kAdasum, "between_hosts"}};

}  // namespace

bool is_composition(Collective collective, std::string_view name) {
  return std::any_of(kCompositions.begin(), kCompositions.end(),
                     [&](const Composition& c) { return c.collective == collective && name == c.name; });
}

std::string list_of_compositions(Collective collective) {
  std::string list;
  for (const Composition& c : kCompositions) {
    if (c.collective == collective) list += (list.empty() ? "" : ", ") + std::string(c.name);
  }
  return list.empty() ? "none" : list;
}

std::optional<Collective> collective_named(std::string_view name) {
  for (const Collective collective : kCollectives) {
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
  for (const Collective collective : kCollectives) {
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
