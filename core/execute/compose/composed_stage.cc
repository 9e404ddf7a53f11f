#include "core/execute/compose/composed_stage.h"

#include <algorithm>
#include <utility>

namespace roda::execute {
namespace {

// More gain nothing: while one piece is between hosts, one is on its way there and one on its way back.
constexpr std::uint32_t kMostLanes = 3;

// Pieces in flight per launch that the groups have slots for, at most `most`. 0: a group has fewer slots than launches.
std::uint32_t lanes_for(const std::vector<CompositionStep>& steps, std::uint32_t launches, std::uint32_t most) {
  for (const CompositionStep& step : steps) {
    if (step.pool == nullptr) continue;
    // Without slots there are only messages, told apart by their tags.
    if (const std::uint32_t slots = step.pool->group().slots(); slots != 0) most = std::min(most, slots / launches);
  }
  return most;
}

}  // namespace

ComposedStage::ComposedStage(std::string name, std::unique_ptr<Composition> composition, std::uint32_t launches)
    : name_(std::move(name)), composition_(std::move(composition)), launches_(launches) {
  const auto& steps = composition_->steps();
  const auto by_tags = static_cast<std::uint32_t>(16 / steps.size());  // StageArgs::stage tells lane and step apart
  lanes_.resize(std::max(lanes_for(steps, launches, std::min(kMostLanes, by_tags)), 1u));
  started_.resize(steps.size());
}

Status ComposedStage::start(const StageArgs& args) {
  args_ = args;
  failure_ = Status();
  begun_ = ended_ = 0;
  std::fill(started_.begin(), started_.end(), 0);
  RODA_RETURN_IF_ERROR(composition_->begin(args_, static_cast<std::uint32_t>(lanes_.size())));
  running_ = true;
  return {};
}

Status ComposedStage::start_step(std::uint32_t index) {
  Lane& lane = lanes_[index];
  const CompositionStep& step = composition_->steps()[lane.step];
  RODA_RETURN_IF_ERROR(step.pool->acquire(step.collective, step.algorithm, step.root, &lane.stage));
  StageArgs args;
  args.collective = step.collective;
  args.dtype = args_.dtype;
  args.op = args_.op;
  args.root = step.root;
  args.launch = args_.launch;
  args.generation = args_.generation;
  args.stage = index * static_cast<std::uint32_t>(composition_->steps().size()) + static_cast<std::uint32_t>(lane.step);
  const std::uint32_t slots = step.pool->group().slots();
  args.slot = slots == 0 ? 0 : (args_.slot % launches_ * static_cast<std::uint32_t>(lanes_.size()) + index) % slots;
  composition_->fill(lane.piece, index, lane.step, &args);
  if (Status s = lane.stage->start(args); !s.ok()) {
    lane.stage.reset();
    return s;
  }
  return {};
}

void ComposedStage::end_step(Lane* lane) {
  if (lane->stage != nullptr) moves_ += lane->stage->moves() + 1;
  lane->stage.reset();
  if (++lane->step < composition_->steps().size()) return;
  composition_->finish(lane->piece, static_cast<std::uint32_t>(lane - lanes_.data()));
  lane->busy = false;
  ++ended_;
}

// Moves one lane on as far as it goes without waiting.
Status ComposedStage::advance(std::uint32_t index, bool* moved) {
  Lane& lane = lanes_[index];
  while (lane.busy) {
    if (lane.stage == nullptr) {
      if (started_[lane.step] != lane.piece) return {};
      if (composition_->steps()[lane.step].pool != nullptr) RODA_RETURN_IF_ERROR(start_step(index));
      ++started_[lane.step];
      *moved = true;
    }
    bool done = true;
    if (lane.stage != nullptr) {
      if (Status s = lane.stage->test(&done); !s.ok()) {
        lane.stage.reset();
        return s;
      }
    }
    if (!done) return {};
    end_step(&lane);
    *moved = true;
  }
  return {};
}

Status ComposedStage::advance(bool* moved) {
  const std::size_t pieces = composition_->pieces();
  for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
    if (!lanes_[i].busy && begun_ < pieces && begun_ % lanes_.size() == i) {
      lanes_[i].piece = begun_++;
      lanes_[i].step = 0;
      lanes_[i].busy = true;
    }
    RODA_RETURN_IF_ERROR(advance(i, moved));
  }
  return {};
}

Status ComposedStage::test(bool* done) {
  *done = !running_;
  if (!running_) return failure_;
  if (failure_.ok()) {
    bool moved = false;
    const Status status = advance(&moved);
    if (status.ok()) {
      *done = ended_ == composition_->pieces();
      running_ = !*done;
      return {};
    }
    failure_ = status;
    abort_groups(status);
  }
  return end_failed(done);
}

// A failed composition is done when all of its stages are.
Status ComposedStage::end_failed(bool* done) {
  *done = true;
  for (Lane& lane : lanes_) {
    bool ended = true;
    if (lane.stage != nullptr) static_cast<void>(lane.stage->test(&ended));
    *done = *done && ended;
    if (!ended) continue;
    lane.stage.reset();
    lane.busy = false;
  }
  running_ = !*done;
  return *done ? failure_ : Status();
}

void ComposedStage::abort_groups(const Status& cause) {
  for (const CompositionStep& step : composition_->steps()) {
    if (step.pool != nullptr) step.pool->group().abort(cause);
  }
}

void ComposedStage::abort(const Status& cause) {
  if (running_ && failure_.ok()) failure_ = cause;
  abort_groups(cause);
}

std::uint64_t ComposedStage::moves() const {
  std::uint64_t moves = moves_;
  for (const Lane& lane : lanes_) {
    if (lane.stage != nullptr) moves += lane.stage->moves();
  }
  return moves;
}

std::string ComposedStage::describe() const {
  std::string text = name_;
  if (!running_) return text + ": idle";
  const std::size_t pieces = composition_->pieces();
  text += ", part " + std::to_string(std::min(ended_ + 1, pieces)) + " of " + std::to_string(pieces);
  const Lane& oldest = lanes_[ended_ % lanes_.size()];
  if (oldest.stage != nullptr) text += ": " + oldest.stage->describe();
  return text;
}

}  // namespace roda::execute
