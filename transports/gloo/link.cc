#include "transports/gloo/link.h"

#include <algorithm>
#include <utility>

#include "transports/gloo/polled.h"
#include "transports/gloo/thread.h"

namespace roda::gloo {

Link::Link(Mesh& mesh, int peer, Explain explain, std::function<void(const sdk::Failure&)> give_up)
    : mesh_(mesh), peer_(peer), explain_(std::move(explain)), give_up_(std::move(give_up)) {
  for (auto& frame : ring_) frame = std::make_unique<FrameBuffer>(mesh_);
  try {
    const PipeSignalHeld held;
    for (const auto& frame : ring_) frame->buffer->recv(peer_, kFrameSlot);
  } catch (const std::exception& broken) {
    fail(broken.what());
  }
}

int Link::pump(bool* data_came) {
  if (broken_ != nullptr) return 0;
  try {
    if (!is_gloos_to_move() && (!receives_.empty() || !sends_.empty())) *data_came |= drive();
    const int sent = end_sends();
    const int received = end_long_receives();
    const int taken = take_frames();
    ask_about_late_ones();
    return sent + received + taken;
  } catch (const std::exception& broken) {
    return fail(broken.what());
  }
}

bool Link::is_gloos_to_move() {
  const bool comes = incoming_.runs(count_big(receives_), [&] { return mesh_.unread_bytes(peer_) > kFewBytes; });
  const bool goes = outgoing_.runs(count_big(sends_), [&] { return mesh_.unsent_bytes(peer_) > kFewBytes; });
  // What is short would wait for somebody to look.
  return (comes || goes) && std::all_of(receives_.begin(), receives_.end(), is_big<Receiving>);
}

bool Link::drive() {
  const bool came = mesh_.drive(peer_);
  if (count_big(receives_) == 0) return came;
  const auto now = Clock::now();
  if (came) last_data_ = now;
  return now - last_data_ < kGap;
}

std::optional<Clock::time_point> Link::rest() {
  if (!is_gloos_to_move()) return std::nullopt;
  std::optional<Clock::time_point> look;
  const auto now = Clock::now();
  const auto consider = [&look, now](MessageStream& stream, const auto& pending) {
    const auto oldest =
        std::find_if(pending.begin(), pending.end(), is_big<typename std::decay_t<decltype(pending)>::value_type>);
    if (oldest == pending.end()) return;
    const auto next = stream.next_look(oldest->request->bytes(), now);
    look = std::min(look.value_or(next), next);
  };
  consider(incoming_, receives_);
  consider(outgoing_, sends_);
  return look;
}

bool Link::withdraw(Request* request) {
  const auto is_it = [request](const auto& pending) { return pending.request == request; };
  const auto receive = std::find_if(receives_.begin(), receives_.end(), is_it);
  if (receive != receives_.end() && receive->data == nullptr) {
    receives_.erase(receive);
    return true;
  }
  const auto send = std::find_if(sends_.begin(), sends_.end(), is_it);
  if (send == sends_.end() || send->has_started()) return false;
  sends_.erase(send);
  --waiting_;
  return true;
}

int Link::fail(const std::string& text) {
  broken_ = std::make_unique<sdk::Failure>(explain_(RODA_ERR_PEER, text));
  const std::size_t pending = sends_.size() + receives_.size();
  std::erase_if(sends_, [](const Sending& message) {
    if (!message.is_done()) return false;
    if (message.request != nullptr) message.request->end();
    return true;
  });
  for (; take_received(*ring_[next_]->buffer); next_ = (next_ + 1) % kFrames) {
    end_long_receives();
    if (ring_[next_]->frame.header.kind == FrameHeader::Kind::kMessage) take_message(ring_[next_]->frame);
  }
  end_long_receives();
  end_all(*broken_);
  return static_cast<int>(pending) + 1;
}

int Link::end_all(const sdk::Failure& cause) {
  if (broken_ == nullptr) broken_ = std::make_unique<sdk::Failure>(cause);
  const std::size_t ended = sends_.size() + receives_.size();
  for (const Sending& message : sends_) {
    if (message.request != nullptr) message.request->end(cause);
  }
  for (const Receiving& receive : receives_) receive.request->end(cause);
  sends_.clear();
  receives_.clear();
  waiting_ = 0;
  return static_cast<int>(ended);
}

}  // namespace roda::gloo
