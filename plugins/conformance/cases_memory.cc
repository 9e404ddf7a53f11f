// Messages between ranges of the memory under test, which may be a device's.
#include "plugins/conformance/kit.h"

namespace roda::conformance {
namespace {

constexpr std::size_t kLengths[] = {0, 1, 7, 4096, 8193, 65537, 1048579};

bool takes(Env& env) {
  const auto& table = env.table();
  const std::uint32_t host = 1u << RODA_MEMORY_HOST;
  const std::uint32_t kinds =
      table.memory_kinds == nullptr ? host : table.memory_kinds(env.context(), env.placement().number);
  return (kinds & 1u << env.placement().memory_kind()) != 0;
}

// Registered while it lives, where it can be.
class Registered {
 public:
  Registered(Env& env, Group& group, Buffer* buffer) : env_(env), group_(group), memory_(buffer->memory()) {
    if (memory_ == nullptr || buffer->size() == 0 || !env.has(RODA_CAP_REGISTER)) memory_ = nullptr;
    if (memory_ == nullptr) return;
    roda_error error = make_error();
    const int32_t code = env.table().memory_register(group.get(), memory_, &error);
    CHECK(code == RODA_OK, "memory_register of %zu bytes: %s", buffer->size(), error.message);
  }
  ~Registered() {
    if (memory_ != nullptr) env_.table().memory_deregister(group_.get(), memory_);
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

 private:
  Env& env_;
  Group& group_;
  roda_memory* memory_;
};

void exchange(Env& env, Group& group, std::size_t bytes, std::uint64_t tag, bool registers) {
  Buffer mine(env.placement(), pattern(bytes, group.rank(), group.right(), tag));
  Buffer theirs(env.placement(), bytes);
  {
    std::vector<std::unique_ptr<Registered>> registered;
    for (Buffer* buffer : {&mine, &theirs}) {
      if (registers) registered.push_back(std::make_unique<Registered>(env, group, buffer));
    }
    roda_request* received = group.receive(group.left(), tag, theirs.data(), bytes, theirs.memory());
    roda_request* sent = group.send(group.right(), tag, mine.data(), bytes, mine.memory());
    group.wait({received, sent});
  }
  CHECK(theirs.read() == pattern(bytes, group.left(), group.rank(), tag), "wrong data in a message of %zu bytes",
        bytes);
}

void messages(Env& env) {
  Group group(env, "placed");
  if (!takes(env)) throw CaseSkipped("messages take no such memory here");
  std::uint64_t tag = 0;
  for (const bool registers : {false, true}) {
    for (const std::size_t bytes : kLengths) exchange(env, group, bytes, ++tag, registers);
  }
  env.barrier();
}

}  // namespace

const std::vector<Case> kMemoryCases = {
    {"memory.messages", "messages between ranges of the memory under test, registered and not", RODA_CAP_P2P, 2, kPlain,
     messages},
};

}  // namespace roda::conformance
