// Steps and schedules in words, for error messages, stall reports and tools.
#pragma once

#include <string>

#include "algorithms/schedule/schedule.h"

namespace roda::schedule {

const char* step_name(StepKind kind);  // "recv_reduce"

std::string to_text(const Range& range);  // "output[2..5)", "output[2]", "nothing"
std::string to_text(const Step& step);    // "recv_reduce output[2] = output[2] + message from 3"
std::string to_text(const Call& call);    // "allreduce/ring among ranks 1, 3, 5"
// A heading and one line for each step.
std::string to_text(const Schedule& schedule);

}  // namespace roda::schedule
