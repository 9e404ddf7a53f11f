// Frames on a stream that comes in pieces.
#include <sys/socket.h>

#include "plugins/base/framing.h"
#include "plugins/base/socket.h"
#include "plugins/base/unique_fd.h"
#include "tests/fuzz/fuzz.h"

namespace roda::fuzz {

constexpr std::size_t kMostFrame = 600;

std::vector<std::string> seeds() {
  const std::string frame = number(std::uint32_t{5}) + "hello";
  return {chunk(frame) + chunk(frame), chunk(frame.substr(0, 3)) + chunk(frame.substr(3)),
          chunk(number(std::uint32_t{0})), chunk(number(std::uint32_t{kMostFrame + 1})),
          chunk(frame + frame + frame.substr(0, 6))};
}

}  // namespace roda::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace roda::fuzz;
  int ends[2];
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0, "there are sockets");
  roda::UniqueFd from(ends[0]);
  const roda::UniqueFd to(ends[1]);
  Input input(data, size);
  roda::FrameReader reader(kMostFrame);
  roda::FrameWriter writer(kMostFrame, kMostFrame);
  std::string sent, received;
  std::vector<std::uint8_t> frame;
  roda::Status status;
  while (status.ok()) {
    const auto piece = input.chunk();
    std::size_t count = 0;
    if (!piece.empty() && !roda::tcp::write_some(from.get(), piece, &count).ok()) break;
    sent.append(piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(count));
    if (!input) from.reset();
    bool complete = true;
    while (complete && (status = reader.receive(to.get(), &frame, &complete)).ok() && complete) {
      require(frame.size() <= kMostFrame, "a frame is within the bound");
      received += number(static_cast<std::uint32_t>(frame.size()));
      received.append(frame.begin(), frame.end());
      bool accepted = false;
      require(writer.push(frame, &accepted).ok(), "what was read can be written");
    }
    require(sent.starts_with(received), "frames are what was sent");
    if (!from) break;
  }
  return 0;
}
