// The line of the program at which a thread waits, for the flight recorder.
#pragma once

namespace roda::python {

// The line of the program at which the calling thread waits. Forgotten when the wait is over, by this object's end.
class WaitingLine {
 public:
  WaitingLine() = default;
  ~WaitingLine();
  WaitingLine(const WaitingLine&) = delete;
  WaitingLine& operator=(const WaitingLine&) = delete;

  // Takes microseconds: once the wait has lasted. Fails silently. Again and again, as another thread may have waited
  // meanwhile. Hold the interpreter's lock.
  void note();

 private:
  bool is_noted_ = false;
};

}  // namespace roda::python
