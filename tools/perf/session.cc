#include "tools/perf/session.h"

#include <string>
#include <utility>

namespace roda::perf {

namespace {

roda_error make_error() {
  roda_error error{};
  error.struct_size = sizeof error;
  return error;
}

void require(std::int32_t code, const char* what, const roda_error& error) {
  if (code < 0) throw Failure(std::string(what) + ": " + error.message);
}

}  // namespace

Pending::Pending(Pending&& other) noexcept
    : handle_(std::exchange(other.handle_, 0)), output_owner_(std::exchange(other.output_owner_, nullptr)) {}

Pending::~Pending() {
  if (output_owner_ != nullptr) roda_output_release(output_owner_);
  if (handle_ == 0) return;
  if (roda_poll(handle_) == 0) roda_wait(handle_, nullptr);  // a handle may be released only when it is done
  roda_release(handle_);
}

void Pending::wait() {
  roda_error error = make_error();
  require(roda_wait(handle_, &error), "wait", error);
}

const void* Pending::output(std::int32_t index) {
  roda_error error = make_error();
  roda_output output{};
  output.struct_size = sizeof output;
  require(roda_get_output(handle_, index, &output, &error), "output", error);
  if (output_owner_ != nullptr) roda_output_release(output_owner_);
  output_owner_ = output.owner;
  return output.data;
}

Session::Session() {
  roda_error error = make_error();
  require(roda_init(nullptr, &error), "init", error);
  rank_ = roda_rank();
  size_ = roda_size();
}

Session::~Session() { roda_shutdown(); }

roda_op Session::make_op(std::int32_t collective, const char* name) {
  roda_op op{};
  op.struct_size = sizeof op;
  op.collective = collective;
  op.name = name;
  op.device = -1;
  op.op = RODA_SUM;
  op.prescale = 1;
  op.postscale = 1;
  return op;
}

Pending Session::submit(const roda_op* ops, std::int32_t count) {
  roda_error error = make_error();
  roda_handle handle = 0;
  require(roda_submit(ops, count, &handle, &error), "submit", error);
  return Pending(handle);
}

}  // namespace roda::perf
