// Group: how it forms. Each step returns at once; what takes many calls of the device is done a few at a time.
//
//   hello    what each member has and wants; the least of all is agreed
//   open     queue pairs, with receives posted
//   cards    their numbers and addresses
//   connect  each to its peer's
//   up       everybody is: nobody sends to a queue pair that isn't
#include <cstring>
#include <utility>

#include "transports/verbs/group.h"

namespace roda::verbs {
namespace {

constexpr int kLinksPerStep = 8;

QueuePair pair_of(const char* card, int rails, int rank, int rail) {
  QueuePair pair;
  const std::size_t index = static_cast<std::size_t>(rank * rails + rail);
  std::memcpy(&pair, card + sizeof(PortAddress) * static_cast<std::size_t>(rails) + sizeof pair * index, sizeof pair);
  return pair;
}

}  // namespace

bool Group::form_on() {
  switch (phase_) {
    case Phase::kHello:
      if (!std::exchange(has_said_hello_, true)) say_hello();
      if (!gather_.test()) return false;
      make_wires();
      phase_ = Phase::kOpen;
      return false;
    case Phase::kOpen:
      if (!wires_->open_some()) return false;
      publish_cards();
      phase_ = Phase::kCards;
      return false;
    case Phase::kCards:
      if (!gather_.test()) return false;
      phase_ = Phase::kConnect;
      return false;
    case Phase::kConnect:
      if (!connect_some()) return false;
      gather_ = sdk::Allgather(exchange_, state_.rank(), state_.size(), "verbs.up");
      gather_.start(nullptr, 0);
      phase_ = Phase::kUp;
      return false;
    case Phase::kUp:
      if (!gather_.test()) return false;
      finish_forming();
      return true;
  }
  return true;
}

void Group::say_hello() {
  const Settings& settings = context_.settings();
  Hello hello;
  hello.host = context_.host_id();
  hello.eager_bytes = settings.eager_bytes;
  hello.stripe_bytes = settings.stripe_bytes;
  hello.credits = settings.credits;
  hello.rails = std::min(kMaxRails, static_cast<int>(context_.devices().size()));
  gather_ = sdk::Allgather(exchange_, state_.rank(), state_.size(), "verbs.hello");
  gather_.start(&hello, sizeof hello);
}

// What all members can do. `before`: the ranks of this host that come before this one.
Hello Group::least_of_all(std::size_t* before) const {
  Hello least;
  std::memcpy(&least, gather_.value(0), sizeof least);
  for (int member = 0; member < state_.size(); ++member) {
    Hello hello;
    std::memcpy(&hello, gather_.value(member), sizeof hello);
    if (hello.magic != kMagic || hello.version != kWireVersion) {
      throw state_.other_version(member);
    }
    least.eager_bytes = std::min(least.eager_bytes, hello.eager_bytes);
    least.stripe_bytes = std::min(least.stripe_bytes, hello.stripe_bytes);
    least.credits = std::min(least.credits, hello.credits);
    least.rails = std::min(least.rails, hello.rails);
    if (member < state_.rank() && hello.host == context_.host_id()) ++*before;
  }
  return least;
}

void Group::make_wires() {
  std::size_t before = 0;
  const Hello least = least_of_all(&before);
  stripe_bytes_ = least.stripe_bytes;
  Wires::Terms terms;
  terms.eager_bytes = least.eager_bytes;
  terms.credits = least.credits;
  for (std::size_t rail = 0; rail < static_cast<std::size_t>(least.rails); ++rail) {
    terms.device_of_rail.push_back((before + rail) % context_.devices().size());
  }
  wires_ = std::make_unique<Wires>(context_.devices(), context_.settings(), std::move(terms), state_.rank());
  wires_->create(state_.world_ranks());
}

void Group::publish_cards() {
  const int rails = wires_->plan().rails();
  std::vector<char> card;
  const auto append = [&](const auto& value) {
    const auto* bytes = reinterpret_cast<const char*>(&value);
    card.insert(card.end(), bytes, bytes + sizeof value);
  };
  for (int rail = 0; rail < rails; ++rail) append(wires_->plan().of(rail).address());
  for (int peer = 0; peer < state_.size(); ++peer) {
    for (int rail = 0; rail < rails; ++rail)
      append(peer == state_.rank() ? QueuePair{} : wires_->link(peer)->card(rail));
  }
  gather_ = sdk::Allgather(exchange_, state_.rank(), state_.size(), "verbs.cards");
  gather_.start(card.data(), card.size());
}

bool Group::connect_some() {
  const int rails = wires_->plan().rails();
  for (int done = 0; done < kLinksPerStep && connected_ < state_.size(); ++connected_) {
    if (connected_ == state_.rank()) continue;
    const char* card = gather_.value(connected_);
    for (int rail = 0; rail < rails; ++rail) {
      PortAddress address;
      std::memcpy(&address, card + sizeof address * static_cast<std::size_t>(rail), sizeof address);
      address.device[sizeof address.device - 1] = 0;
      wires_->link(connected_)->connect(rail, address, pair_of(card, rails, state_.rank(), rail));
    }
    ++done;
  }
  return connected_ == state_.size();
}

void Group::finish_forming() {
  for (const auto& link : wires_->links()) {
    if (link != nullptr) link->heard_ns = now_ns();
  }
  messages_.use(wires_.get(), stripe_bytes_);
  wires_->set_listener(this);
}

}  // namespace roda::verbs
