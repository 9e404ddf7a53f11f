#include "bindings/c/process.h"
#include "bindings/c/roda.h"

int32_t roda_start_timeline(const char* path, int32_t mark_cycles) {
  roda::engine::Engine* engine = roda::Process::get().running();
  return engine == nullptr ? -1 : engine->start_timeline(path, mark_cycles != 0);
}

int32_t roda_stop_timeline(void) {
  roda::engine::Engine* engine = roda::Process::get().running();
  return engine == nullptr ? -1 : engine->stop_timeline();
}
