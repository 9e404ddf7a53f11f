// Groups as the cases use them.
#include <algorithm>
#include <cstdio>
#include <exception>

#include "plugins/conformance/kit.h"

namespace roda::conformance {

Group::Group(Env& env, Options options, const std::string& name) : env_(env), name_(name) {
  if (options.members.empty()) {
    for (int i = 0; i < env.size(); ++i) options.members.push_back(i);
  }
  members_.assign(options.members.begin(), options.members.end());
  rank_ = static_cast<int>(std::find(members_.begin(), members_.end(), env.rank()) - members_.begin());
  key_ = name + "#" + std::to_string(options.generation);
  desc_.struct_size = sizeof desc_;
  desc_.rank = rank_;
  desc_.size = size();
  desc_.world_ranks = members_.data();
  desc_.name = name_.c_str();
  desc_.generation = options.generation;
  desc_.timeout_ns = options.timeout_ns;
  desc_.has_device = env.placement().device != nullptr ? 1 : 0;
  desc_.device = env.placement().number;
  desc_.exchange = {sizeof desc_.exchange, 0, this, &exchange_put, &exchange_get};
  roda_error error = make_error();
  const int32_t code = env_.table().group_create(env_.context(), &desc_, &group_, &error);
  CHECK(code == RODA_OK, "group_create: %d %s", code, error.message);
}

// By way of the other constructor, so that one that fails to form is destroyed.
Group::Group(Env& env, const std::string& name, const Options& options) : Group(env, options, name) {
  if (!options.form) return;
  const Result result = form();
  CHECK(result.code == RODA_OK, "forming group %s: %d %s", name_.c_str(), result.code, result.error.message);
}

Group::~Group() noexcept(false) { destroy(); }

void Group::destroy() {
  if (group_ == nullptr) return;
  if (std::uncaught_exceptions() == 0) env_.settle();
  env_.table().group_destroy(group_);
  group_ = nullptr;
}

int32_t Group::exchange_put(void* self, const char* key, const void* value, size_t bytes, roda_error* error) {
  auto* group = static_cast<Group*>(self);
  const bool is_legal = bytes <= 65536 && group->env_.world().put(group->key_, group->rank_, key, value, bytes);
  if (is_legal) return RODA_OK;
  std::snprintf(error->message, sizeof error->message, "the kit's exchange takes no %zu bytes under '%s'", bytes, key);
  return error->code = RODA_ERR_INVALID;
}

int32_t Group::exchange_get(void* self, int32_t rank, const char* key, void* value, size_t* bytes, roda_error* error) {
  auto* group = static_cast<Group*>(self);
  const int32_t code = group->env_.world().get(group->key_, rank, key, value, bytes);
  if (code < 0) std::snprintf(error->message, sizeof error->message, "'%s' is longer than the room for it", key);
  return code;
}

Result Group::form() {
  Result result{RODA_IN_PROGRESS, make_error()};
  const auto tested = [&] { return (result.code = test(&result.error)) != RODA_IN_PROGRESS; };
  env_.poll_until(tested, "forming a group");
  return result;
}

template <typename Start>
roda_request* Group::retry(const char* what, Start&& start) {
  roda_request* request = nullptr;
  roda_error error = make_error();
  int32_t code = RODA_AGAIN;
  env_.poll_until([&] { return (code = start(&request, &error)) != RODA_AGAIN; }, what);
  CHECK(code == RODA_OK, "%s: %d %s", what, code, error.message);
  return request;
}

roda_request* Group::send(int peer, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory* memory) {
  return retry("send", [&](roda_request** request, roda_error* error) {
    return env_.table().send(group_, peer, tag, data, bytes, memory, request, error);
  });
}

roda_request* Group::receive(int peer, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory* memory) {
  return retry("recv", [&](roda_request** request, roda_error* error) {
    return env_.table().recv(group_, peer, tag, data, bytes, memory, request, error);
  });
}

roda_request* Group::get(int peer, std::uint32_t slot, std::size_t offset, void* to, std::size_t bytes) {
  return retry("get", [&](roda_request** request, roda_error* error) {
    return env_.table().get(group_, peer, slot, offset, to, bytes, request, error);
  });
}

roda_request* Group::put(int peer, std::uint32_t slot, std::size_t offset, const void* from, std::size_t bytes) {
  return retry("put", [&](roda_request** request, roda_error* error) {
    return env_.table().put(group_, peer, slot, offset, from, bytes, request, error);
  });
}

roda_request* Group::start(const roda_collective_args& args) {
  return retry(roda_collective_name(args.collective), [&](roda_request** request, roda_error* error) {
    return env_.table().collective_start(group_, &args, request, error);
  });
}

void Group::signal(int peer, std::uint32_t index, std::uint64_t value) {
  retry("signal",
        [&](roda_request**, roda_error* error) { return env_.table().signal(group_, peer, index, value, error); });
}

void Group::wait_signal(int peer, std::uint32_t index, std::uint64_t value) {
  env_.drive([&] { return env_.table().signal_value(group_, peer, index) >= value; }, "a signal");
}

void Group::pass_around(std::uint64_t tag, const void* out, void* in, std::size_t bytes) {
  roda_request* received = receive(left(), tag, in, bytes);
  wait({received, send(right(), tag, out, bytes)});
}

void Group::check_it_talks() {
  if (!env_.has(RODA_CAP_P2P) || size() < 2) return;
  int in = -1;
  pass_around(1, &rank_, &in, sizeof in);
  CHECK(in == left(), "group %s: %d came from rank %d", key_.c_str(), in, left());
}

roda_memory Group::allocate(std::size_t bytes) {
  roda_error error = make_error();
  roda_memory memory{};
  memory.struct_size = sizeof memory;
  const int32_t code = env_.table().memory_alloc(group_, bytes, &memory, &error);
  CHECK(code == RODA_OK, "memory_alloc(%zu): %d %s", bytes, code, error.message);
  CHECK(memory.address != nullptr && memory.length >= bytes, "memory_alloc(%zu) gave %zu bytes", bytes, memory.length);
  return memory;
}

void Group::wait(std::vector<roda_request*> requests) {
  roda_error error = make_error();
  const auto all_done = [&] {
    std::erase_if(requests, [&](roda_request* request) {
      if (request == nullptr) return true;
      const int32_t code = env_.table().request_test(group_, request, &error);
      CHECK(code == RODA_OK || code == RODA_IN_PROGRESS, "a request ended with %d %s", code, error.message);
      return code == RODA_OK;
    });
    return requests.empty();
  };
  env_.drive(all_done, "requests");
}

Result Group::finish(roda_request* request) {
  Result result{request == nullptr ? RODA_OK : RODA_IN_PROGRESS, make_error()};
  // Not asked again once it has ended: that released it.
  const auto ended = [&] {
    if (result.code != RODA_IN_PROGRESS) return true;
    result.code = env_.table().request_test(group_, request, &result.error);
    return result.code != RODA_IN_PROGRESS;
  };
  env_.drive(ended, "the end of a request");
  return result;
}

void Group::abort(int32_t code, int world_rank, const char* text) {
  roda_error cause = make_error();
  static_cast<void>(Status(code, text, world_rank).to(&cause));
  env_.table().group_abort(group_, &cause);
}

}  // namespace roda::conformance
