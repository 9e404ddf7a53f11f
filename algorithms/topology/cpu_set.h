// Sets of hardware threads, by the operating system's numbers, and their text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace roda::topology {

using CpuSet = std::vector<int>;  // ascending, no number twice

constexpr int kMostCpus = 65536;

// The kernel's list form: "0-3,8"; "" for the empty set.
std::string print_cpus(const CpuSet& cpus);
// False for anything but that form, numbers beyond kMostCpus, or a list that does not ascend.
bool parse_cpus(std::string_view text, CpuSet* cpus);

bool contains(const CpuSet& all, const CpuSet& some);
CpuSet intersect(const CpuSet& a, const CpuSet& b);

}  // namespace roda::topology
