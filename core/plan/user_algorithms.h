// Algorithms from files, which HOROVOD_SELECT names.
#pragma once

#include <string>

#include "plugins/base/status.h"

namespace roda::engine {

// Takes "schedules = PATHS", which stands among the rules of HOROVOD_SELECT, out of them: *paths are files and folders,
// separated by colons, and blanks are left in its place, so that errors in the rules name the column that was written.
std::string without_schedules(std::string rules, std::string* paths);

// Reads and proves the algorithms of these files, and sets them for schedule::find_algorithm. What is wrong is an error
// that names the file and, where the verifier objects, rank, lane and step. Of several sizes the smallest is proved at
// once, the others when they are first asked for.
Status load_user_algorithms(const std::string& paths);

// One line for each, to be compared between ranks: "algorithm allreduce/two_ways=3f2a...\n".
std::string user_algorithms_note();

}  // namespace roda::engine
