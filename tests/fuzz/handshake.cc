// The handshake: garbage at either side, and somebody in between who changes bytes. Nobody is believed who doesn't know
// the secret.
#include "plugins/base/auth.h"
#include "tests/fuzz/fuzz.h"

namespace roda::fuzz {
namespace {

Secret secret() { return Secret(std::vector<std::uint8_t>(Secret::kMinBytes, 7)); }

// All that the input has, in pieces.
void feed_garbage(Handshake* side, Input* input) {
  while (*input && side->wanted() > 0) {
    const auto piece = input->bytes(std::min<std::size_t>(side->wanted(), 1 + input->number<std::uint8_t>() % 40));
    if (!side->feed(piece).ok()) return;
  }
  require(!side->done(), "garbage proves nothing");
}

struct Wire {
  std::size_t place = 0;
  std::uint8_t change = 0;
  std::size_t carried = 0;
  bool has_changed = false;

  bool carry(Handshake* from, Handshake* to) {
    while (!from->output().empty() && to->wanted() > 0) {
      const std::size_t count = std::min(from->output().size(), to->wanted());
      std::vector<std::uint8_t> bytes(from->output().begin(),
                                      from->output().begin() + static_cast<std::ptrdiff_t>(count));
      if (change != 0 && place >= carried && place < carried + count) {
        bytes[place - carried] ^= change;
        has_changed = true;
      }
      carried += count;
      from->consume_output(count);
      if (!to->feed(bytes).ok()) return false;
    }
    return true;
  }
};

}  // namespace

std::vector<std::string> seeds() {
  const std::string hello =
      std::string("roda") + number(std::uint16_t{1}) + number(std::uint16_t{9}) + std::string(32, 'n');
  return {"c" + std::string(1, 39) + hello, "s" + std::string(1, 39) + hello,
          std::string("m") + number(std::uint16_t{3}) + "x", std::string("m") + number(std::uint16_t{100}) + "x",
          std::string("m\0\0\0", 4)};
}

}  // namespace roda::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace roda::fuzz;
  using roda::Handshake;
  Input input(data, size);
  static const roda::Secret known = secret();
  Handshake client(Handshake::Role::kClient, known, 9), server(Handshake::Role::kServer, known, 9);
  if (!client.start().ok() || !server.start().ok()) return 0;
  const auto mode = input.number<char>();
  if (mode == 'c') {
    feed_garbage(&client, &input);
  } else if (mode == 's') {
    feed_garbage(&server, &input);
  } else {
    Wire wire;
    wire.place = input.number<std::uint16_t>() % 160;
    wire.change = input.number<std::uint8_t>();
    while (wire.carry(&client, &server) && wire.carry(&server, &client) && !client.output().empty()) {
    }
    require(!(client.done() && server.done()) || !wire.has_changed, "a changed handshake fails");
    require(wire.has_changed || (client.done() && server.done()), "an unchanged one succeeds");
  }
  return 0;
}
