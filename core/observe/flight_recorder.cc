#include "core/observe/flight_recorder.h"

#include <fcntl.h>
#include <roda/abi/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "core/observe/process_line.h"
#include "plugins/base/format.h"
#include "plugins/base/unique_fd.h"

namespace roda::observe {
namespace {

constexpr char kFlightTag[8] = {'r', 'o', 'd', 'a', 'f', 'l', 't', '3'};
constexpr int kNear = 64;  // entries that are passed over, at most, for one that has ended

std::int64_t ns(CoarseClock::time_point at) { return at.time_since_epoch().count(); }

std::int64_t wall_offset() {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  const auto steady = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(wall - steady).count();
}

template <std::size_t N>
void put_text(char (&to)[N], std::string_view text) {
  std::memcpy(to, text.data(), std::min(text.size(), N - 1));
}

template <std::size_t N>
std::string_view text_of(const char (&from)[N]) {
  return {from, strnlen(from, N)};
}

FlightHeader& header_of(std::span<std::byte> memory) { return *reinterpret_cast<FlightHeader*>(memory.data()); }

std::span<FlightEntry> entries_of(std::span<std::byte> memory) {
  return {reinterpret_cast<FlightEntry*>(memory.data() + sizeof(FlightHeader)), FlightRecorder::kEntries};
}

// Nothing where it is written right now, or whoever wrote it died at that.
std::string line_of(const FlightHeader& header) {
  std::uint64_t text[FlightHeader::kLineWords];
  const std::uint64_t number = header.line_number.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < FlightHeader::kLineWords; ++i) text[i] = header.line[i].load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (number % 2 != 0 || header.line_number.load(std::memory_order_relaxed) != number) return {};
  return std::string(reinterpret_cast<const char*>(text));
}

std::string describe(const FlightEntry& entry) {
  return roda::format(
      "{{\"number\": {}, \"name\": {}, \"collective\": {}, \"dtype\": {}, \"set\": {}, \"bytes\": {}, \"submitted\": "
      "{}, \"agreed\": {}, \"launched\": {}, \"ended\": {}, \"code\": {}, \"awaited_rank\": {}, \"missing_count\": "
      "{}}}",
      entry.number.load(), json_quote((entry.is_cut != 0 ? "…" : "") + std::string(entry.name, entry.name_bytes)),
      json_quote(roda_collective_of(entry.collective)->users), json_quote(roda_dtype_name(entry.dtype)), entry.set,
      entry.bytes, entry.submitted, entry.agreed.load(), entry.launched.load(), entry.ended.load(), entry.code.load(),
      entry.awaited_rank.load(), entry.missing_count.load());
}

std::string describe(std::span<std::byte> memory) {
  const FlightHeader& header = header_of(memory);
  std::string line = line_of(header);
  if (line.empty()) line = line_of_process(header.pid);
  std::string text = roda::format(
      "{{\"rank\": {}, \"size\": {}, \"pid\": {}, \"generation\": {}, \"host\": {}, \"transports\": {}, "
      "\"where\": {}, \"wall_offset\": {}, \"started\": {}, \"last\": {}, \"ended\": {}, \"ended_bytes\": {}, "
      "\"operations\": [",
      header.rank, header.size, header.pid, header.generation, json_quote(text_of(header.host)),
      json_quote(text_of(header.transports)), json_quote(line), header.wall_offset, header.started, header.last.load(),
      header.ended.load(), header.ended_bytes.load());
  const char* separator = "\n";
  for (const FlightEntry& entry : entries_of(memory)) {
    if (entry.number.load(std::memory_order_acquire) == 0) continue;
    text += separator + describe(entry);
    separator = ",\n";
  }
  return text + "]}";
}

}  // namespace

FlightRecorder::FlightRecorder(std::span<std::byte> memory, const Owner& owner)
    : header_(&header_of(memory)), entries_(entries_of(memory)) {
  header_->entries = kEntries;
  header_->entry_bytes = sizeof(FlightEntry);
  header_->rank = owner.rank;
  header_->size = owner.size;
  header_->pid = ::getpid();
  header_->generation = owner.generation;
  header_->wall_offset = wall_offset();
  header_->started = ns(CoarseClock::now());
  put_text(header_->host, owner.host);
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(header_->tag, kFlightTag, sizeof kFlightTag);
}

std::uint64_t FlightRecorder::submitted(const Submission& submission) {
  std::uint64_t number = header_->last.load(std::memory_order_relaxed) + 1;
  const auto slot = [this](std::uint64_t n) -> FlightEntry& { return entries_[n % kEntries]; };
  for (int passed = 0; passed < kNear; ++passed, ++number) {
    const FlightEntry& old = slot(number);
    if (old.number.load(std::memory_order_relaxed) == 0 || old.ended.load(std::memory_order_relaxed) != 0) break;
  }
  FlightEntry& entry = slot(number);
  entry.number.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  entry.submitted = ns(submission.at);
  entry.agreed.store(0, std::memory_order_relaxed);
  entry.launched.store(0, std::memory_order_relaxed);
  entry.ended.store(0, std::memory_order_relaxed);
  entry.bytes = submission.bytes;
  entry.set = submission.set;
  entry.code.store(0, std::memory_order_relaxed);
  entry.awaited_rank.store(-1, std::memory_order_relaxed);
  entry.missing_count.store(0, std::memory_order_relaxed);
  entry.collective = static_cast<std::uint8_t>(submission.collective);
  entry.dtype = static_cast<std::uint8_t>(submission.dtype);
  // A long name keeps its end, which tells more: parameters' names begin alike.
  const std::size_t kept = std::min(submission.name.size(), sizeof entry.name);
  entry.name_bytes = static_cast<std::uint8_t>(kept);
  entry.is_cut = kept < submission.name.size() ? 1 : 0;
  std::memcpy(entry.name, submission.name.data() + submission.name.size() - kept, kept);
  entry.number.store(number, std::memory_order_release);
  header_->last.store(number, std::memory_order_relaxed);
  // The ring is larger than the first cache.
  const auto* next = reinterpret_cast<const std::byte*>(&slot(number + 1));
  __builtin_prefetch(next, 1);
  __builtin_prefetch(next + sizeof entry / 2, 1);
  return number;
}

FlightEntry* FlightRecorder::find(std::uint64_t number) {
  FlightEntry& entry = entries_[number % kEntries];
  return number != 0 && entry.number.load(std::memory_order_relaxed) == number ? &entry : nullptr;
}

void FlightRecorder::agreed(std::uint64_t number, Time at) {
  if (FlightEntry* entry = find(number)) entry->agreed.store(ns(at), std::memory_order_relaxed);
}

void FlightRecorder::launched(std::uint64_t number, Time at) {
  if (FlightEntry* entry = find(number)) entry->launched.store(ns(at), std::memory_order_relaxed);
}

void FlightRecorder::ended(std::uint64_t number, const Status& status, Time at) {
  FlightEntry* entry = find(number);
  if (entry == nullptr) return;
  entry->code.store(status.code(), std::memory_order_relaxed);
  entry->ended.store(ns(at), std::memory_order_relaxed);
  // The one writer: plain sums, without the bus.
  header_->ended.store(header_->ended.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  header_->ended_bytes.store(header_->ended_bytes.load(std::memory_order_relaxed) + entry->bytes,
                             std::memory_order_relaxed);
}

void FlightRecorder::missing(std::uint64_t number, std::span<const std::int32_t> ranks) {
  FlightEntry* entry = find(number);
  if (entry == nullptr || ranks.empty()) return;
  entry->awaited_rank.store(ranks.front(), std::memory_order_relaxed);
  entry->missing_count.store(static_cast<std::int32_t>(ranks.size()), std::memory_order_relaxed);
}

void FlightRecorder::complete(std::uint64_t number, std::int32_t last) {
  FlightEntry* entry = find(number);
  if (entry == nullptr) return;
  entry->awaited_rank.store(last, std::memory_order_relaxed);
  entry->missing_count.store(0, std::memory_order_relaxed);
}

void FlightRecorder::uses(std::string_view transport) {
  std::string all(text_of(header_->transports));
  all += (all.empty() ? "" : " ") + std::string(transport);
  put_text(header_->transports, all);
}

void note_line(std::span<std::byte> recorder, std::string_view line) {
  FlightHeader& header = header_of(recorder);
  line.remove_prefix(line.size() - std::min(line.size(), sizeof header.line - 1));  // a path's end tells more
  if (line == line_of(header)) return;  // often, and nothing changes for readers
  std::uint64_t number = header.line_number.load(std::memory_order_relaxed);
  if (number % 2 != 0 || !header.line_number.compare_exchange_strong(number, number + 1, std::memory_order_relaxed)) {
    return;
  }
  std::atomic_thread_fence(std::memory_order_release);
  std::uint64_t text[FlightHeader::kLineWords] = {};
  std::memcpy(text, line.data(), line.size());
  for (std::size_t i = 0; i < FlightHeader::kLineWords; ++i) header.line[i].store(text[i], std::memory_order_relaxed);
  header.line_number.store(number + 2, std::memory_order_release);
}

std::string latest_operations(std::span<const std::span<std::byte>> recorders) {
  const auto now = ns(CoarseClock::now());
  std::string text = "Submitted last, on this host:";
  const char* separator = " ";
  for (const std::span<std::byte> recorder : recorders) {
    const FlightHeader& header = header_of(recorder);
    const std::uint64_t last = header.last.load(std::memory_order_acquire);
    const FlightEntry& entry = entries_of(recorder)[last % FlightRecorder::kEntries];
    text += roda::format("{}rank {} ", separator, header.rank);
    text += last == 0 ? "nothing"
                      : roda::format("'{}{}', {:.0f} s ago", entry.is_cut != 0 ? "…" : "",
                                     std::string_view(entry.name, entry.name_bytes),
                                     static_cast<double>(now - entry.submitted) / 1e9);
    const std::string line = line_of(header);
    text += line.empty() ? where_process_is(header.pid) : ", and waits at " + line;
    separator = "; ";
  }
  return text + ". `roda-doctor PID` says more.";
}

Status dump_flight(std::span<const std::span<std::byte>> recorders, const std::string& folder, const Status& why) {
  FlightHeader& first = header_of(recorders.front());
  if (first.is_dumped.exchange(1) != 0) return {};
  const std::string path =
      roda::format("{}/roda-flight.{}.{}.{}.json", folder, text_of(first.host), first.pid, first.generation);
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  const auto failed = [&] { return Status::of_errno("'" + path + "' can't be written"); };
  if (!file) return failed();
  const auto now = ns(CoarseClock::now());
  std::string text =
      roda::format("{{\"roda_flight\": 1, \"taken\": {}, \"cause\": {}, \"cause_rank\": {}, \"ranks\": [", now,
                   json_quote(why.message()), why.rank());
  const char* separator = "\n";
  for (const std::span<std::byte> recorder : recorders) {
    if (std::memcmp(header_of(recorder).tag, kFlightTag, sizeof kFlightTag) != 0) continue;
    text += separator + describe(recorder);
    separator = ",\n";
  }
  text += "]}\n";
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t count = ::write(file.get(), rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return failed();
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

}  // namespace roda::observe
