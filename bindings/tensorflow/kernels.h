// What the ops do when they run.
#pragma once

#include "bindings/tensorflow/api.h"

namespace roda::tf {

// The kernel of a collective (its number in roda.h). Asynchronous: no thread of TensorFlow's waits.
template <int collective>
void* create(TF_OpKernelConstruction* construction);
void compute(void* kernel, TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done);
void destroy(void* kernel);

// The kernel of a number that the engine knows, an int32 scalar; the attribute process_set_id, where there is one, says
// of which set.
struct Number {
  int set = 0;
};
void* create_number(TF_OpKernelConstruction* construction);
template <int (*get)(int set)>
void compute_number(void* kernel, TF_OpKernelContext* context);
void destroy_number(void* kernel);

void tell_number(TF_OpKernelContext* context, int number);

template <int (*get)(int set)>
void compute_number(void* kernel, TF_OpKernelContext* context) {
  tell_number(context, get(static_cast<Number*>(kernel)->set));
}

struct Kernel;
Kernel* make_kernel(TF_OpKernelConstruction* construction, int collective);

template <int collective>
void* create(TF_OpKernelConstruction* construction) {
  return make_kernel(construction, collective);
}

}  // namespace roda::tf
