#include "plugins/base/auth.h"

#include <algorithm>
#include <cstring>

#include "plugins/base/format.h"

namespace roda {

namespace {

constexpr std::uint8_t kHelloMagic[4] = {'r', 'o', 'd', 'a'};
constexpr std::size_t kHeaderBytes = 8;
constexpr std::size_t kHelloBytes = kHeaderBytes + 32;
constexpr std::size_t kProofBytes = 32;
constexpr std::size_t kAnswerBytes = 2 + 32;

enum Verdict : std::uint16_t { kAccepted = 0, kOtherVersion = 1, kOtherService = 2, kWrongProof = 3 };

std::uint16_t load16(const std::uint8_t* at) { return static_cast<std::uint16_t>(at[0] | at[1] << 8); }

void append16(std::vector<std::uint8_t>& out, std::uint16_t value) {
  out.push_back(static_cast<std::uint8_t>(value));
  out.push_back(static_cast<std::uint8_t>(value >> 8));
}

void append(std::vector<std::uint8_t>& out, Bytes bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }

// The first bytes of a hello, whose last word is the service, and of a challenge, whose last is the verdict.
std::vector<std::uint8_t> header(std::uint16_t last) {
  std::vector<std::uint8_t> bytes(std::begin(kHelloMagic), std::end(kHelloMagic));
  append16(bytes, Handshake::kVersion);
  append16(bytes, last);
  return bytes;
}

Status check_version(const std::vector<std::uint8_t>& message) {
  const std::uint16_t version = load16(&message[4]);
  if (version == Handshake::kVersion) return {};
  return Status::auth(roda::format("it speaks protocol version {}, this side {}", version, Handshake::kVersion));
}

}  // namespace

Status Handshake::start() {
  if (!secret_.is_long_enough()) {
    return Status::auth(roda::format("the job's secret has {} bytes; {} to {} are needed", secret_.bytes().size(),
                                     Secret::kMinBytes, Secret::kMaxBytes));
  }
  RODA_RETURN_IF_ERROR(fill_random(role_ == Role::kClient ? client_nonce_ : server_nonce_));
  if (role_ == Role::kClient) {
    output_ = header(service_);
    append(output_, client_nonce_);
  }
  expect(kHelloBytes);
  return {};
}

Status Handshake::feed(Bytes bytes) {
  input_.insert(input_.end(), bytes.begin(), bytes.end());
  wanted_ -= bytes.size();
  // Garbage is refused at its first bytes, not when a whole message of it has come.
  if (step_ == 0) {
    std::size_t seen = std::min(input_.size(), sizeof kHelloMagic);
    if (!std::equal(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(seen), kHelloMagic)) {
      wanted_ = 0;
      return Status::auth("it does not speak this protocol");
    }
  }
  if (wanted_ > 0) return {};
  int step = step_++;
  if (role_ == Role::kServer) return step == 0 ? on_hello() : on_proof();
  return step == 0 ? on_challenge() : on_answer();
}

Status Handshake::on_hello() {
  const std::uint16_t service = load16(&input_[6]);
  if (Status status = check_version(input_); !status.ok()) return refuse(kOtherVersion, status.message());
  if (service != service_) {
    return refuse(kOtherService, roda::format("it looks for service {}, this is service {}", service, service_));
  }
  std::copy_n(input_.begin() + kHeaderBytes, client_nonce_.size(), client_nonce_.begin());
  append(output_, header(kAccepted));
  append(output_, server_nonce_);
  expect(kProofBytes);
  return {};
}

Status Handshake::on_challenge() {
  RODA_RETURN_IF_ERROR(check_version(input_));
  if (load16(&input_[6]) != kAccepted) {
    return Status::auth(roda::format("it is not the listener for service {} of this protocol", service_));
  }
  std::copy_n(input_.begin() + kHeaderBytes, server_nonce_.size(), server_nonce_.begin());
  Digest digest;
  RODA_RETURN_IF_ERROR(proof("roda client", &digest));
  append(output_, digest);
  expect(kAnswerBytes);
  return {};
}

Status Handshake::on_proof() {
  Digest expected;
  RODA_RETURN_IF_ERROR(proof("roda client", &expected));
  if (!equal_constant_time(input_, expected)) return refuse(kWrongProof, "it does not know the job's secret");
  Digest digest;
  RODA_RETURN_IF_ERROR(proof("roda server", &digest));
  append16(output_, kAccepted);
  append(output_, digest);
  done_ = true;
  return {};
}

Status Handshake::on_answer() {
  if (load16(input_.data()) != kAccepted) {
    return Status::auth("it refused our proof: the two sides have different secrets");
  }
  Digest expected;
  RODA_RETURN_IF_ERROR(proof("roda server", &expected));
  if (!equal_constant_time(Bytes(input_).subspan(2), expected)) {
    return Status::auth("it does not know the job's secret");
  }
  done_ = true;
  return {};
}

Status Handshake::proof(const char* label, Digest* digest) const {
  const Bytes text(reinterpret_cast<const std::uint8_t*>(label), std::strlen(label));
  return hmac_sha256(secret_.bytes(), {text, header(service_), client_nonce_, server_nonce_}, digest);
}

// The refusal has the size of the message the client waits for, so that it can read the verdict.
Status Handshake::refuse(std::uint16_t verdict, std::string why) {
  if (verdict == kWrongProof) {
    append16(output_, verdict);
  } else {
    append(output_, header(verdict));
  }
  output_.resize(output_.size() + 32);
  return Status::auth(std::move(why));
}

}  // namespace roda
