// Where the chunks of a one-sided program lie when its data is staged: in the block that peers see, or in the user's
// memory. Only what peers touch is staged, and a last write that nobody looks at goes straight to the user.
#pragma once

#include "core/execute/schedule/program.h"
#include "core/execute/schedule/replay.h"

namespace roda::execute {

// Whether two operands may share a byte.
bool overlap(const Operand& a, const Operand& b);

// Fills program->contribution.
void list_contribution(Program* program);

// Fills Operand::in_user of all ops, and the lists of copies, from what the replay saw.
void place(const ReplayResult& facts, Program* program);

}  // namespace roda::execute
