#include "core/bootstrap/link_speed.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <span>
#include <sstream>
#include <vector>

#include "core/bootstrap/gather.h"
#include "plugins/base/format.h"
#include "plugins/base/hmac.h"
#include "plugins/base/socket.h"
#include "plugins/base/unique_fd.h"

namespace roda {
namespace {

using Clock = std::chrono::steady_clock;

// What each host sends in all. The first quarter, while congestion control finds its pace, does not count.
constexpr std::size_t kBytes = std::size_t{16} << 20;
// Over slow links less is sent, and nobody waits longer for the rest.
constexpr std::chrono::milliseconds kLongestSending{300};
constexpr std::chrono::seconds kLongest{5};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Where the rank listens, and the word by which a connection shows that it is from its counterpart.
struct Meeting {
  std::string address;
  int port = 0;
  std::string word;
};

// What one rank sends and receives. -1: it has no counterpart there.
struct Traffic {
  int to = -1, from = -1;
  std::size_t bytes = 0;
};

Traffic traffic_of(const Topology& topology, int rank) {
  const auto host = static_cast<std::size_t>(topology.rank(rank).host), hosts = topology.hosts.size();
  const auto& here = topology.hosts[host].ranks;
  const auto place = std::ranges::find(here, rank) - here.begin();
  const auto counterpart = [&](std::size_t other) {
    const auto& ranks = topology.hosts[other].ranks;
    return place < std::ssize(ranks) ? ranks[static_cast<std::size_t>(place)] : -1;
  };
  const std::size_t next = (host + 1) % hosts;
  const std::size_t streams = std::min(here.size(), topology.hosts[next].ranks.size());
  return {counterpart(next), counterpart((host + hosts - 1) % hosts), kBytes / streams};
}

class Measurement {
 public:
  Measurement(const Traffic& traffic, UniqueFd listener, std::string own_word)
      : traffic_(traffic), listener_(std::move(listener)), own_word_(std::move(own_word)), data_(256 << 10) {}

  // *rate: bytes per second that came; 0 where there is nobody to send any.
  Status run(const Meeting& next, Clock::time_point deadline, double* rate) {
    if (traffic_.to >= 0) {
      std::vector<SocketAddress> addresses;
      RODA_RETURN_IF_ERROR(resolve(next.address, next.port, &addresses));
      RODA_RETURN_IF_ERROR(tcp::connect_start(addresses.front(), &outgoing_));
      std::ranges::copy(next.word, data_.begin());
    }
    while (!has_sent() || !has_received()) {
      if (Clock::now() > deadline) return Status(RODA_ERR_TIMEOUT, "it took too long");
      pollfd fds[2] = {{has_sent() ? -1 : outgoing_.get(), POLLOUT, 0},
                       {has_received() ? -1
                        : incoming_    ? incoming_.get()
                                       : listener_.get(),
                        POLLIN, 0}};
      ::poll(fds, std::size(fds), 100);
      if (fds[0].revents != 0) RODA_RETURN_IF_ERROR(send());
      if (fds[1].revents != 0) RODA_RETURN_IF_ERROR(incoming_ ? receive() : accept());
    }
    *rate = received_rate();
    return {};
  }

 private:
  bool has_sent() const { return traffic_.to < 0 || is_sent_; }
  bool has_received() const { return traffic_.from < 0 || is_received_; }

  Status send() {
    if (!is_connected_) RODA_RETURN_IF_ERROR(tcp::connect_test(outgoing_.get(), &is_connected_));
    if (!is_connected_) return {};
    if (sent_ == 0) began_ = Clock::now();
    const std::size_t begin = std::min(sent_, own_word_.size());  // behind the word anything will do
    const std::size_t left = own_word_.size() + traffic_.bytes - sent_;
    const std::span<const std::uint8_t> data(data_.data() + begin, std::min(left, data_.size() / 2 - begin));
    std::size_t count = 0;
    RODA_RETURN_IF_ERROR(tcp::write_some(outgoing_.get(), data, &count));
    sent_ += count;
    is_sent_ = count == left || Clock::now() - began_ > kLongestSending;
    if (is_sent_) ::shutdown(outgoing_.get(), SHUT_WR);
    return {};
  }

  // Strangers are turned away when they have said the wrong word.
  Status accept() {
    SocketAddress peer;
    heard_.clear();
    return tcp::accept_one(listener_.get(), &incoming_, &peer);
  }

  Status receive() {
    std::size_t count = 0;
    bool end = false;
    const std::span<std::uint8_t> room(data_.data() + data_.size() / 2, data_.size() / 2);
    RODA_RETURN_IF_ERROR(tcp::read_some(incoming_.get(), room, &count, &end));
    if (heard_.size() < own_word_.size()) {
      const std::size_t missing = std::min(count, own_word_.size() - heard_.size());
      heard_.append(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(missing));
      const bool is_stranger = heard_ != own_word_.substr(0, heard_.size()) || (end && heard_ != own_word_);
      if (is_stranger) incoming_ = UniqueFd();
      return {};
    }
    if (samples_.empty()) arrived_ = Clock::now();
    received_ += count;
    samples_.push_back({seconds_since(arrived_), received_});
    is_received_ = end;
    return {};
  }

  double received_rate() const {
    const auto counts = std::ranges::find_if(samples_, [&](const Sample& s) { return s.bytes >= received_ / 4; });
    if (counts == samples_.end()) return 0;
    // The last sample is the end of the stream, which may come late.
    const auto last = std::ranges::find_if(samples_, [&](const Sample& s) { return s.bytes == received_; });
    const double seconds = std::max(last->seconds - counts->seconds, 1e-6);
    return static_cast<double>(last->bytes - counts->bytes) / seconds;
  }

  struct Sample {
    double seconds;
    std::size_t bytes;
  };

  const Traffic traffic_;
  const UniqueFd listener_;
  const std::string own_word_;      // as long as everybody's
  std::vector<std::uint8_t> data_;  // the first half is sent, what comes goes to the second
  UniqueFd outgoing_, incoming_;
  std::string heard_;
  bool is_connected_ = false, is_sent_ = false, is_received_ = false;
  Clock::time_point began_, arrived_;
  std::size_t sent_ = 0, received_ = 0;
  std::vector<Sample> samples_;
};

// Listens, and learns where everybody does, in which all ranks meet.
Status meet(Store& store, const Topology& topology, int rank, const LinkOptions& options, UniqueFd* listener,
            std::vector<Meeting>* all) {
  std::vector<SocketAddress> addresses;
  SocketAddress bound;
  std::uint8_t random[8] = {};
  Status mine = resolve(options.address, 0, &addresses);
  if (mine.ok()) mine = tcp::listen_on(addresses.front(), listener, &bound);
  if (mine.ok()) mine = fill_random(random);
  std::string word;
  for (const std::uint8_t byte : random) word += roda::format("{:02x}", byte);
  const std::string text = mine.ok() ? roda::format("{} {} {}", bound.host(), bound.port(), word) : "- 0 " + word;
  const auto combine = [](const std::vector<std::string>& texts, std::string* together) {
    for (const std::string& each : texts) *together += each + "\n";
    return Status();
  };
  std::string together;
  RODA_RETURN_IF_ERROR(
      gather(store, rank, topology.size(), options.key + "/meet", text, options.deadline, combine, &together));
  std::istringstream lines(together);
  for (Meeting each; lines >> each.address >> each.port >> each.word;) all->push_back(each);
  return {};
}

}  // namespace

Status measure_link(Store& store, const Topology& topology, int rank, const LinkOptions& options,
                    topology::Link* link) {
  UniqueFd listener;
  std::vector<Meeting> all;
  RODA_RETURN_IF_ERROR(meet(store, topology, rank, options, &listener, &all));
  Status mine = std::ranges::any_of(all, [](const Meeting& each) { return each.port == 0; })
                    ? Status::unavailable("some rank could not listen")
                    : Status();
  double rate = 0;
  const Traffic traffic = traffic_of(topology, rank);
  if (mine.ok()) {
    Measurement measurement(traffic, std::move(listener), all[static_cast<std::size_t>(rank)].word);
    const Meeting next = traffic.to < 0 ? Meeting() : all[static_cast<std::size_t>(traffic.to)];
    mine = measurement.run(next, std::min(options.deadline, Clock::now() + kLongest), &rate);
  }
  const std::string text =
      mine.ok() ? roda::format("{} {}", rate, options.cores) : roda::format("-rank {}: {}", rank, mine.message());
  const auto combine = [&](const std::vector<std::string>& texts, std::string* together) {
    std::map<int, double> of_hosts;
    int cores = std::numeric_limits<int>::max();
    for (int each = 0; const std::string& said : texts) {
      *together = said.substr(1);
      if (said.starts_with('-')) return Status();
      std::istringstream numbers(said);
      double came = 0;
      int available = 1;
      numbers >> came >> available;
      const int host = topology.rank(each++).host;
      of_hosts[host] += came;
      cores = std::min({cores, available, topology.local_size(each - 1)});
    }
    const auto slowest = std::ranges::min_element(of_hosts, {}, [](const auto& host) { return host.second; });
    *together = roda::format("{} {}", slowest->second, cores);
    return Status();
  };
  std::string result;
  RODA_RETURN_IF_ERROR(
      gather(store, rank, topology.size(), options.key + "/rates", text, options.deadline, combine, &result));
  std::istringstream numbers(result);
  *link = topology::Link();
  if (numbers >> link->bytes_per_second >> link->cores) {
    link->source = "measured";
  } else {
    *link = {0, 1, result};
  }
  return {};
}

}  // namespace roda
