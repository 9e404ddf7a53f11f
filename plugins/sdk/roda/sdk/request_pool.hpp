// Requests without an allocation per operation.
#pragma once

#include <memory>
#include <vector>

namespace roda::sdk {

// Hands out objects of one type and takes them back for reuse; all are destroyed with the pool. Objects keep their
// contents between uses: whoever takes one sets what it needs. One thread at a time.
template <typename Request>
class RequestPool {
 public:
  Request* take() {
    if (free_.empty()) {
      all_.push_back(std::make_unique<Request>());
      free_.reserve(all_.size());
      return all_.back().get();
    }
    Request* request = free_.back();
    free_.pop_back();
    return request;
  }
  void give_back(Request* request) { free_.push_back(request); }
  // Out with take()s not yet given back.
  std::size_t in_use() const { return all_.size() - free_.size(); }

 private:
  std::vector<std::unique_ptr<Request>> all_;
  std::vector<Request*> free_;
};

}  // namespace roda::sdk
