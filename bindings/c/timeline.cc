#include "bindings/c/process.h"
#include "bindings/c/roda.h"

int32_t roda_start_timeline(const char* path, int32_t mark_cycles) {
  const roda::EngineRef engine = roda::Process::get().running();
  return engine.check().ok() ? engine->start_timeline(path, mark_cycles != 0) : -1;
}

int32_t roda_stop_timeline(void) {
  const roda::EngineRef engine = roda::Process::get().running();
  return engine.check().ok() ? engine->stop_timeline() : -1;
}
