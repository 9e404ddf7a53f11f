#include "core/execute/adasum/adasum_stage.h"

#include <algorithm>
#include <utility>

#include "core/execute/schedule/run_view.h"
#include "plugins/devices/cpu/cpu_device.h"

namespace roda::execute {

AdasumStage::AdasumStage(TransportGroup& group, const ExecuteOptions& options, Arrangement arrangement)
    : group_(group), options_(options), arrangement_(std::move(arrangement)), transfer_(group) {
  const auto& ranks = arrangement_.rank_at;
  position_ = static_cast<int>(std::find(ranks.begin(), ranks.end(), group.rank()) - ranks.begin());
  for (int block = 1; block < arrangement_.averaged; block *= 2) ++averaged_levels_;
}

Status AdasumStage::start(const StageArgs& args) {
  double none[3] = {};
  if (!cpu::adasum_dots(none, none, 0, args.dtype, none)) {
    return Status::unsupported(std::string("Adasum of ") + roda_dtype_name(args.dtype) + " is not supported");
  }
  args_ = args;
  data_ = static_cast<char*>(args.output);
  element_ = roda_dtype_size(args.dtype);
  begins_.assign(args.tensor_begins, args.tensor_begins + args.tensors);
  begins_.push_back(args.count);
  levels_ = adasum::levels(position_, group_.size(), args.count);
  tag_ = Tag{args.generation, args.launch, args.stage, 0, 0}.packed();
  received_.reserve(std::max<std::size_t>((args.count / 2 + 1) * element_, 1));
  failure_ = Status();
  level_ = first_level();
  origin_ = level_ == 0 ? 0 : levels_[level_ - 1].keeps.first;
  running_ = true;
  enter(level_ == 0 ? Phase::kCopy : level_ < levels_.size() ? Phase::kExchange : Phase::kDone);
  return {};
}

void AdasumStage::enter(Phase phase) {
  phase_ = phase;
  ++moves_;
  cursor_ = tensor_ = 0;
  switch (phase) {
    case Phase::kExchange:
      begin_exchange();
      break;
    case Phase::kDots:
      sums_.assign(3 * tensors(), 0.0);
      cursor_ = level().keeps.first;
      break;
    case Phase::kSums:
      round_ = 1;
      begin_round();
      break;
    case Phase::kCombine:
      cursor_ = level().keeps.first;
      break;
    case Phase::kGather:
      begin_gather();
      break;
    case Phase::kCopy:
    case Phase::kDone:
      break;
  }
}

void AdasumStage::begin_exchange() {
  transfer_.begin(rank_at(level().peer), tag_, options_.segment_bytes, at(level().gives.first),
                  level().gives.count * element_, received_.reserve(0), level().keeps.count * element_);
}

void AdasumStage::begin_round() {
  peers_sums_.resize(sums_.size());
  const std::size_t bytes = sums_.size() * sizeof(double);
  transfer_.begin(rank_at(position_ ^ round_), tag_, options_.segment_bytes, sums_.data(), bytes, peers_sums_.data(),
                  bytes);
}

void AdasumStage::begin_gather() {
  transfer_.begin(rank_at(level().peer), tag_, options_.segment_bytes, at(level().keeps.first),
                  level().keeps.count * element_, at(level().gives.first), level().gives.count * element_);
}

// Down the levels, then up again.
void AdasumStage::next_level() {
  if (phase_ == Phase::kGather) {
    if (level_ == first_level()) return enter(Phase::kDone);
    --level_;
    return enter(Phase::kGather);
  }
  if (level_ + 1 == levels_.size()) return enter(Phase::kGather);
  ++level_;
  enter(Phase::kExchange);
}

std::size_t AdasumStage::next_run(std::size_t* tensor) {
  while (begins_[tensor_ + 1] <= cursor_) ++tensor_;
  *tensor = tensor_;
  const adasum::Range& mine = level().keeps;
  const std::size_t end = std::min(begins_[tensor_ + 1], mine.first + mine.count);
  const std::size_t run = std::min(end - cursor_, options_.segment_bytes / element_);
  budget_ -= std::min(budget_, run * element_);
  ++moves_;
  return run;
}

bool AdasumStage::copy_some() {
  const char* from = static_cast<const char*>(args_.input);
  if (from == data_) return true;
  const std::size_t run = std::min(args_.count - cursor_, options_.segment_bytes / element_);
  const roda_host& host = group_.context().host();
  if (run > 0) host.copy(host.self, at(cursor_), from + cursor_ * element_, run * element_);
  budget_ -= std::min(budget_, run * element_);
  ++moves_;
  cursor_ += run;
  return cursor_ == args_.count;
}

bool AdasumStage::dots_some() {
  const adasum::Range& mine = level().keeps;
  if (cursor_ == mine.first + mine.count) return true;
  std::size_t tensor = 0;
  const std::size_t run = next_run(&tensor);
  const void* own = at(cursor_);
  const void* other = received_.reserve(0) + (cursor_ - mine.first) * element_;
  if (!level().is_low) std::swap(own, other);
  cpu::adasum_dots(own, other, run, args_.dtype, &sums_[3 * tensor]);
  cursor_ += run;
  return false;
}

bool AdasumStage::combine_some() {
  const adasum::Range& mine = level().keeps;
  if (cursor_ == mine.first + mine.count) return true;
  std::size_t tensor = 0;
  const std::size_t run = next_run(&tensor);
  const void* own = at(cursor_);
  const void* other = received_.reserve(0) + (cursor_ - mine.first) * element_;
  if (!level().is_low) std::swap(own, other);
  adasum::Weights w{0.5, 0.5};
  if (!averages()) w = adasum::weights(sums_[3 * tensor], sums_[3 * tensor + 1], sums_[3 * tensor + 2]);
  cpu::adasum_weigh(at(cursor_), own, other, run, args_.dtype, w.first, w.second);
  cursor_ += run;
  return false;
}

// One step of the phase. *waits: for a peer.
Status AdasumStage::step(bool* waits) {
  bool done = false;
  bool moved = false;
  switch (phase_) {
    case Phase::kCopy:
      if (copy_some()) enter(levels_.empty() ? Phase::kDone : Phase::kExchange);
      return {};
    case Phase::kExchange:
      RODA_RETURN_IF_ERROR(transfer_.advance(&done, &moved));
      if (done) enter(averages() ? Phase::kCombine : Phase::kDots);
      break;
    case Phase::kDots:
      if (dots_some()) enter(Phase::kSums);
      return {};
    case Phase::kSums:
      RODA_RETURN_IF_ERROR(transfer_.advance(&done, &moved));
      if (!done) break;
      // Both sides add the same two numbers, so all ranks come to the same sums.
      for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += peers_sums_[i];
      round_ *= 2;
      if (round_ <= 1 << level_) {
        begin_round();
      } else {
        enter(Phase::kCombine);
      }
      break;
    case Phase::kCombine:
      if (combine_some()) next_level();
      return {};
    case Phase::kGather:
      RODA_RETURN_IF_ERROR(transfer_.advance(&done, &moved));
      if (done) next_level();
      break;
    case Phase::kDone:
      break;
  }
  moves_ += moved ? 1 : 0;
  *waits = !done && !moved;
  return {};
}

Status AdasumStage::advance() {
  budget_ = options_.test_bytes;
  bool waits = false;
  while (phase_ != Phase::kDone && !waits && budget_ > 0) RODA_RETURN_IF_ERROR(step(&waits));
  return {};
}

Status AdasumStage::test(bool* done) {
  *done = !running_;
  if (!running_) return failure_;
  if (failure_.ok() && group_.aborted()) failure_ = group_.cause();
  if (failure_.ok()) {
    const Status status = advance();
    if (status.ok()) {
      *done = phase_ == Phase::kDone;
      running_ = !*done;
      return {};
    }
    failure_ = status;
    group_.abort(status);
  }
  return end_failed(done);
}

Status AdasumStage::end_failed(bool* done) {
  *done = transfer_.release();
  running_ = !*done;
  return *done ? failure_ : Status();
}

void AdasumStage::abort(const Status& cause) {
  if (running_ && failure_.ok()) failure_ = cause;
  group_.abort(cause);
}

std::string AdasumStage::describe() const {
  std::string text = std::string("adasum over ") + group_.context().name();
  if (!running_) return text + ": idle";
  if (levels_.empty() || phase_ == Phase::kDone) return text + ": done";
  const int peer = phase_ == Phase::kSums ? position_ ^ round_ : level().peer;
  return text + ": level " + std::to_string(level_ + 1) + " of " + std::to_string(levels_.size()) + ", with rank " +
         std::to_string(group_.world_rank(rank_at(peer)));
}

}  // namespace roda::execute
