// What the control groups of this process leave it of the machine.
#pragma once

#include <string>

namespace roda {

// Cores' worth of time that the CPU controllers grant, version 1 or 2, the least of all levels; 0: no limit. /proc and
// /sys lie below `root`, which tests replace.
double cgroup_cpu_limit(const std::string& root = "");

// Of two such limits.
double smaller_limit(double a, double b);

}  // namespace roda
