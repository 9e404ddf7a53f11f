#include "core/execute/stage.h"

#include "plugins/base/invariant.h"

namespace roda::execute {

void GiveBack::operator()(Stage* stage) const { stage->taken_ = false; }

Status Stage::start(const StageArgs& args) {
  RODA_INVARIANT(!running_, "a stage starts when its run before has ended");
  RODA_RETURN_IF_ERROR(begin(args));
  failure_ = Status();
  running_ = true;
  return {};
}

Status Stage::test(bool* done) {
  *done = !running_;
  if (!running_) return failure_;
  if (failure_.ok()) {
    const Status status = advance(done);
    running_ = !*done;
    if (status.ok()) return {};
    failure_ = status;
    abort_groups(status);
  }
  *done = release();
  running_ = !*done;
  return *done ? failure_ : Status();
}

void Stage::abort(const Status& cause) {
  if (running_ && failure_.ok()) failure_ = cause;
  abort_groups(cause);
}

}  // namespace roda::execute
