#include "core/execute/adasum/transfer.h"

#include <algorithm>

namespace roda::execute {

void Transfer::begin(int peer, std::uint64_t tag, std::size_t segment, const void* out, std::size_t out_bytes, void* in,
                     std::size_t in_bytes) {
  peer_ = peer;
  tag_ = tag;
  segment_ = segment;
  // One type of pointer for both ways; what goes out is only read.
  out_ = Way();
  out_.data = static_cast<char*>(const_cast<void*>(out));
  out_.bytes = out_bytes;
  in_ = Way();
  in_.data = static_cast<char*>(in);
  in_.bytes = in_bytes;
}

Status Transfer::start(Way* way, bool sends, bool* moved) {
  while (way->begun < way->bytes && way->count < Way::kMost) {
    const std::size_t bytes = std::min(segment_, way->bytes - way->begun);
    char* data = way->data + way->begun;
    roda_request* request = nullptr;
    const int code = sends ? group_.send(peer_, tag_, data, bytes, nullptr, &request)
                           : group_.recv(peer_, tag_, data, bytes, nullptr, &request);
    if (code == RODA_AGAIN) return {};
    RODA_RETURN_IF_ERROR(group_.error(code));
    way->begun += bytes;
    *moved = true;
    if (request != nullptr) way->pending[(way->head + way->count++) % Way::kMost] = request;
  }
  return {};
}

Status Transfer::reap(Way* way, bool* moved) {
  while (way->count > 0) {
    const int code = group_.test_request(way->pending[way->head]);
    if (code == RODA_IN_PROGRESS) return {};
    way->head = (way->head + 1) % Way::kMost;
    --way->count;
    *moved = true;
    RODA_RETURN_IF_ERROR(group_.error(code));
  }
  return {};
}

Status Transfer::advance(bool* done, bool* moved) {
  RODA_RETURN_IF_ERROR(start(&in_, false, moved));
  RODA_RETURN_IF_ERROR(start(&out_, true, moved));
  RODA_RETURN_IF_ERROR(reap(&in_, moved));
  RODA_RETURN_IF_ERROR(reap(&out_, moved));
  *done = in_.begun == in_.bytes && out_.begun == out_.bytes && in_.count == 0 && out_.count == 0;
  return {};
}

bool Transfer::release() {
  for (Way* way : {&in_, &out_}) {
    for (; way->count > 0; --way->count) {
      if (group_.test_request(way->pending[way->head]) == RODA_IN_PROGRESS) return false;
      way->head = (way->head + 1) % Way::kMost;
    }
    way->begun = way->bytes;
  }
  return true;
}

}  // namespace roda::execute
