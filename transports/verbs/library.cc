#include "transports/verbs/library.h"

#include <dlfcn.h>

#include <roda/sdk/error.hpp>

namespace roda::verbs {

namespace {

template <typename Function>
void look_up(void* handle, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(::dlsym(handle, name));
}

template <typename Function>
void demand(void* handle, const char* name, const std::string& file, Function* function) {
  look_up(handle, name, function);
  if (*function != nullptr) return;
  throw sdk::Failure(RODA_ERR_UNAVAILABLE,
                     file + " has no " + name + ": it is older than rdma-core 32; install a newer libibverbs");
}

}  // namespace

std::shared_ptr<const Library> Library::open(const std::string& file) {
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    throw sdk::Failure(RODA_ERR_UNAVAILABLE, std::string("libibverbs can't be opened (Debian: libibverbs1 and "
                                                         "ibverbs-providers): ") +
                                                 (why != nullptr ? why : file));
  }
  auto library = std::make_shared<Library>();
#define RODA_VERBS_DEMAND(name) demand(handle, "ibv_" #name, file, &library->name);
  RODA_VERBS_FUNCTIONS(RODA_VERBS_DEMAND)
#undef RODA_VERBS_DEMAND
  demand(handle, "_ibv_query_gid_ex", file, &library->query_gid_ex);
  look_up(handle, "ibv_reg_dmabuf_mr", &library->reg_dmabuf_mr);
  return library;
}

}  // namespace roda::verbs
