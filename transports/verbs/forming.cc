// Group: how it forms. Each step returns at once; what takes many calls of the device is done a few at a time.
//
//   hello    what each member has and wants; the least of all is agreed
//   open     queue pairs, with receives posted; their numbers and addresses are told
//   connect  each to its peer's
//   up       everybody is: nobody sends to a queue pair that isn't
#include <cstring>
#include <utility>

#include "transports/verbs/group.h"

namespace roda::verbs {
namespace {

template <typename Value>
Value read_at(const char* bytes, std::size_t index) {
  Value value;
  std::memcpy(&value, bytes + sizeof value * index, sizeof value);
  return value;
}

}  // namespace

bool Group::form_on() {
  if (!gather_.test()) return false;
  switch (phase_) {
    case Phase::kHello:
      make_wires();
      phase_ = Phase::kOpen;
      return false;
    case Phase::kOpen:
      if (!wires_->open_some()) return false;
      publish_cards();
      phase_ = Phase::kConnect;
      return false;
    case Phase::kConnect:
      if (!connect_some()) return false;
      gather("verbs.up", nullptr, 0);
      phase_ = Phase::kUp;
      return false;
    case Phase::kUp:
      finish_forming();
  }
  return true;
}

void Group::gather(const char* key, const void* value, std::size_t bytes) {
  gather_ = sdk::Allgather(exchange_, state_.rank(), state_.size(), key);
  gather_.start(value, bytes);
}

void Group::say_hello() {
  const Settings& settings = context_.settings();
  Hello hello;
  hello.host = context_.host_id();
  hello.eager_bytes = settings.eager_bytes;
  hello.stripe_bytes = settings.stripe_bytes;
  hello.credits = settings.credits;
  hello.rails = std::min(kMaxRails, static_cast<std::uint32_t>(context_.devices().size()));
  gather("verbs.hello", &hello, sizeof hello);
}

// With what all members can do. Ranks of one host begin with one device after the other.
void Group::make_wires() {
  auto least = gather_.value_as<Hello>(0);
  std::size_t before = 0;  // ranks of this host that come before this one
  for (int member = 0; member < state_.size(); ++member) {
    const auto hello = gather_.value_as<Hello>(member);
    if (hello.magic != kMagic || hello.version != kWireVersion) throw state_.other_version(member);
    least.eager_bytes = std::min(least.eager_bytes, hello.eager_bytes);
    least.stripe_bytes = std::min(least.stripe_bytes, hello.stripe_bytes);
    least.credits = std::min(least.credits, hello.credits);
    least.rails = std::min(least.rails, hello.rails);
    if (member < state_.rank() && hello.host == context_.host_id()) ++before;
  }
  std::vector<std::size_t> device_of_rail;
  for (std::size_t rail = 0; rail < least.rails; ++rail) {
    device_of_rail.push_back((before + rail) % context_.devices().size());
  }
  wires_ = std::make_unique<Wires>(context_.devices(), context_.settings(), least, std::move(device_of_rail), state_);
}

void Group::publish_cards() {
  const std::size_t rails = wires_->plan().rails();
  std::vector<char> card;
  const auto append = [&](const auto& value) {
    const auto* bytes = reinterpret_cast<const char*>(&value);
    card.insert(card.end(), bytes, bytes + sizeof value);
  };
  for (std::size_t rail = 0; rail < rails; ++rail) append(wires_->plan().of(rail).address());
  for (int peer = 0; peer < state_.size(); ++peer) {
    for (std::size_t rail = 0; rail < rails; ++rail) {
      append(peer == state_.rank() ? QueuePair{} : wires_->link(peer).card(rail));
    }
  }
  gather("verbs.cards", card.data(), card.size());
}

bool Group::connect_some() {
  const std::size_t rails = wires_->plan().rails();
  for (int i = 0; i < kLinksPerStep && connected_ < wires_->links().size(); ++i, ++connected_) {
    Link& link = wires_->links()[connected_];
    const char* card = gather_.value(link.rank);
    const char* pairs = card + sizeof(PortAddress) * rails;
    for (std::size_t rail = 0; rail < rails; ++rail) {
      auto address = read_at<PortAddress>(card, rail);
      address.device[sizeof address.device - 1] = 0;
      link.connect(rail, address, read_at<QueuePair>(pairs, static_cast<std::size_t>(state_.rank()) * rails + rail));
    }
  }
  return connected_ == wires_->links().size();
}

void Group::finish_forming() {
  for (Link& link : wires_->links()) link.heard_ns = now_ns();
  messages_.use(wires_.get());
  wires_->set_listener(this);
}

}  // namespace roda::verbs
