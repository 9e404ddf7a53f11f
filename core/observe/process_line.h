// Where a process is, from outside it: of a rank that does not wait in Roda nobody has noted a line.
#pragma once

#include <string>

namespace roda::observe {

// ", and is at train.py:57", ", and its process is stopped", "in a debugger" or "gone", to follow what a process did
// last; "" where it does not say. The process offers the stack of its main thread (horovod/common/stacks.py) and has
// 0.3 s to write it. Of the innermost line that is no library's.
std::string where_process_is(int pid);

// The same line alone.
std::string line_of_process(int pid);

}  // namespace roda::observe
