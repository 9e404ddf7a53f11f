#include "core/execute/compose/composed_stage.h"

#include <algorithm>
#include <utility>

namespace roda::execute {
namespace {

// More gain nothing: while one piece is between hosts, one is on its way there and one on its way back.
constexpr std::uint32_t kMostLanes = 3;

// StageArgs::stage, of which there are 16, tells lane and step apart. The same on every rank, whatever groups it is in.
std::size_t lanes_for(std::size_t steps) { return std::clamp<std::size_t>(16 / steps, 1, kMostLanes); }

}  // namespace

ComposedStage::ComposedStage(std::string name, std::unique_ptr<Composition> composition, std::uint32_t launches,
                             std::vector<StepData> data)
    : name_(std::move(name)),
      composition_(std::move(composition)),
      launches_(launches),
      data_(std::move(data)),
      lanes_(lanes_for(composition_->steps().size())),
      turns_(lanes_.size(), rivals()) {}

std::uint32_t ComposedStage::slots_per_launch(const CompositionStep& step) const {
  const std::uint32_t slots = step.pool->group().slots();
  return slots == 0 ? 0 : std::max(slots / launches_, 1u);
}

// Whether the group tells stages apart by their order, or has too few slots for all lanes.
bool ComposedStage::needs_order(const CompositionStep& step) const {
  const std::uint32_t slots = slots_per_launch(step);
  return step.algorithm == "native" || (slots != 0 && slots < lanes_.size());
}

// Whether the two must keep one order: they share a group, or the stream of a device, where one that waits for its
// peers holds up what is behind it.
bool ComposedStage::share_order(std::size_t a, std::size_t b) const {
  const CompositionStep &one = composition_->steps()[a], &other = composition_->steps()[b];
  if (a == b || one.pool == nullptr || other.pool == nullptr) return false;
  const bool on_one_stream = !data_.empty() && !is_beside_stream(a) && !is_beside_stream(b);
  return (on_one_stream || one.pool == other.pool) && needs_order(one) && needs_order(other);
}

std::vector<std::vector<std::size_t>> ComposedStage::rivals() const {
  std::vector<std::vector<std::size_t>> rivals(composition_->steps().size());
  for (std::size_t a = 0; a < rivals.size(); ++a) {
    for (std::size_t b = 0; b < rivals.size(); ++b) {
      if (share_order(a, b)) rivals[a].push_back(b);
    }
  }
  return rivals;
}

// Where lanes outnumber slots a stage waits for the one that has its slot, which began before it on every rank.
bool ComposedStage::slot_is_free(std::uint32_t index) const {
  const auto& steps = composition_->steps();
  const CompositionStep& step = steps[lanes_[index].step];
  const std::uint32_t slots = slots_per_launch(step);
  if (slots == 0 || slots >= lanes_.size()) return true;
  for (std::uint32_t other = 0; other < lanes_.size(); ++other) {
    const bool shares = lanes_[other].stage != nullptr && steps[lanes_[other].step].pool == step.pool;
    if (shares && other % slots == index % slots) return false;
  }
  return true;
}

Status ComposedStage::start(const StageArgs& args) {
  args_ = args;
  failure_ = Status();
  begun_ = ended_ = 0;
  RODA_RETURN_IF_ERROR(composition_->begin(args_, static_cast<std::uint32_t>(lanes_.size())));
  turns_.reset(composition_->pieces());
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
  if (const std::uint32_t slots = slots_per_launch(step); slots != 0) {
    args.slot = (args_.slot % launches_ * slots + index % slots) % step.pool->group().slots();
  }
  args.queue = args_.queue;
  if (Status s = composition_->fill(lane.piece, index, lane.step, &args); !s.ok()) {
    lane.stage.reset();
    return s;
  }
  TransportGroup& group = step.pool->group();
  lane.runs = lane.stage.get();
  if (is_beside_stream(lane.step)) {
    const bool is_direct = data_[lane.step] == StepData::kDirect;
    lane.staging.wrap(lane.stage.get(), group.rank(), group.size(),
                      is_direct ? StagedStage::Way::kDirect : StagedStage::Way::kThroughHost);
    lane.runs = &lane.staging;
  }
  if (Status s = lane.runs->start(args); !s.ok()) {
    lane.stage.reset();
    return s;
  }
  return {};
}

// Copies of later pieces may be seen to end before those of earlier ones; their stages begin in the pieces' order.
bool ComposedStage::is_first_outside(std::uint32_t index) const {
  const Lane& mine = lanes_[index];
  return std::none_of(lanes_.begin(), lanes_.end(), [&](const Lane& other) {
    return other.stage != nullptr && other.step == mine.step && other.piece < mine.piece && other.staging.is_outside();
  });
}

Status ComposedStage::end_step(Lane* lane) {
  if (lane->stage != nullptr) moves_ += lane->runs->moves() + 1;
  lane->stage.reset();
  if (++lane->step < composition_->steps().size()) return {};
  lane->busy = false;
  ++ended_;
  return composition_->finish(lane->piece, static_cast<std::uint32_t>(lane - lanes_.data()));
}

// Moves one lane on as far as it goes without waiting.
Status ComposedStage::advance(std::uint32_t index, bool* moved) {
  Lane& lane = lanes_[index];
  while (lane.busy) {
    if (lane.stage == nullptr) {
      if (!turns_.may_begin(lane.step, lane.piece)) return {};
      if (composition_->steps()[lane.step].pool != nullptr) {
        if (!slot_is_free(index)) return {};
        RODA_RETURN_IF_ERROR(start_step(index));
      }
      turns_.begun(lane.step);
      *moved = true;
    }
    bool done = true;
    if (lane.stage != nullptr) {
      lane.staging.let_in(is_first_outside(index));
      if (Status s = lane.runs->test(&done); !s.ok()) {
        lane.stage.reset();
        return s;
      }
    }
    if (!done) return {};
    RODA_RETURN_IF_ERROR(end_step(&lane));
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
    if (lane.stage != nullptr) static_cast<void>(lane.runs->test(&ended));
    *done = *done && ended;
    if (!ended) continue;
    lane.stage.reset();
    lane.busy = false;
  }
  running_ = !*done;
  return *done ? failure_ : Status();
}

void ComposedStage::abort_groups(const Status& cause) {
  for (Lane& lane : lanes_) {
    if (lane.stage != nullptr) lane.runs->abort(cause);
  }
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
    if (lane.stage != nullptr) moves += lane.runs->moves();
  }
  return moves;
}

std::string ComposedStage::describe() const {
  std::string text = name_;
  if (!running_) return text + ": idle";
  const std::size_t pieces = composition_->pieces();
  text += ", part " + std::to_string(std::min(ended_ + 1, pieces)) + " of " + std::to_string(pieces);
  const Lane& oldest = lanes_[ended_ % lanes_.size()];
  if (oldest.stage != nullptr) text += ": " + oldest.runs->describe();
  return text;
}

}  // namespace roda::execute
