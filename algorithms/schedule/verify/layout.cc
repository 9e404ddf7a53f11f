// Whose memory lies where: ranks' spaces, and what a call works on beside them.
#include <algorithm>
#include <numeric>

#include "algorithms/index.h"
#include "algorithms/schedule/verify/proof.h"

namespace roda::schedule::verifier {
namespace {

std::int32_t chunks_of_data(const Op& call) { return std::max(call.src.count, call.dst.count); }

std::vector<std::size_t> even_prefix(std::size_t cells, std::int32_t chunks) {
  std::vector<std::size_t> prefix;
  for (std::size_t c = 0; c <= at(chunks); ++c) prefix.push_back(cells / at(chunks) * c);
  return prefix;
}

std::vector<std::size_t> prefix_of(const std::vector<std::int32_t>& ends, int parts) {
  std::vector<std::size_t> prefix{0};
  for (const std::int32_t end : ends) prefix.push_back(at(end) * at(parts));
  return prefix;
}

}  // namespace

// Data are cut so far that every algorithm's chunks are whole numbers of cells.
void Proof::count_parts() {
  for (const Program* rank : ranks_) {
    for (const Op& op : rank->lanes.front().ops) {
      if (op.kind != OpKind::kCall) continue;
      const Program& program = *rank->calls[op.source].program;
      lanes_ = std::max(lanes_, static_cast<int>(program.lanes.size()));
      if (is_cut(program.collective)) {
        parts_ = std::lcm(parts_, program.chunks / std::gcd(program.chunks, chunks_of_data(op)));
      }
    }
  }
  if (!is_cut(ranks_.front()->collective)) parts_ = 1;
}

Proof::Proof(const std::vector<const Program*>& ranks, std::vector<Setting> settings)
    : ranks_(ranks), settings_(std::move(settings)), size_(static_cast<int>(ranks.size())) {
  count_parts();
  expressions_.emplace(size_, ranks.front()->chunks * parts_);
  for (int rank = 0; rank < size_; ++rank) {
    for (int lane = 0; lane < lanes_; ++lane) threads_.push_back({rank, lane, Clock(size_ * lanes_)});
    thread_of(rank, 0).clock.tick(rank * lanes_);
  }
  memory_.resize(ranks.size());
  for (const Program* program : ranks_) add_rank(*program);
  for (const auto& [key, session] : sessions_) {
    const auto missing = std::ranges::find(session.frames, nullptr);
    if (missing == session.frames.end()) continue;
    const auto caller = std::ranges::find_if(session.frames, [](const Frame* frame) { return frame != nullptr; });
    throw violation(thread_of((*caller)->rank, 0), *caller, nullptr,
                    "stage " + std::to_string(key.first) + ": rank " +
                        std::to_string(key.second[static_cast<std::size_t>(missing - session.frames.begin())]) +
                        " does not call what rank " + std::to_string((*caller)->rank) + " calls");
  }
}

// The start of a rank defines its memory.
void Proof::add_rank(const Program& program) {
  Rank& rank = rank_of(program.rank);
  const roda_collective_entry& data = entry_of(program.collective);
  add_space(program, Space::kOutput, output_blocks(program));
  const bool is_shared = settings_[at(program.rank) % settings_.size()].in_output && rank.spaces[1] != kNowhere &&
                         data.input != RODA_ALL_PARTS;
  if (is_shared) {
    rank.spaces[0] = rank.spaces[1] + (data.input == RODA_OWN_PART ? at(program.rank) : 0);
  } else {
    add_space(program, Space::kInput, input_blocks(program));
  }
  add_space(program, Space::kScratch, program.scratch);
  for (const Region& region : program.regions) {
    for (std::int32_t i = 0; i < region.count * parts_; ++i) {
      rank.cells[rank.spaces[2] + at(region.first * parts_ + i)].region =
          static_cast<std::int32_t>(&region - program.regions.data());
    }
  }
  for (std::int32_t i = 0; i < chunk_count(program, Space::kInput) * parts_; ++i) {
    rank.cells[rank.spaces[0] + at(i)].value = initial_value(program, i, *expressions_);
  }
  const auto cells_of = [&](const Operand& range) {
    return rank.spaces[static_cast<std::size_t>(range.space)] + at(range.first * parts_);
  };
  for (const Op& op : program.lanes.front().ops) {
    if (op.kind == OpKind::kCall) {
      add_frame(program.rank, program.calls[op.source], op);
    } else {
      const Operand& from = program.sources_of(op).front().operand;
      rank.acts.push_back({nullptr, cells_of(op.dst), cells_of(from), at(op.dst.count * parts_)});
    }
  }
}

void Proof::add_space(const Program& program, Space space, const std::vector<Block>& blocks) {
  Rank& rank = rank_of(program.rank);
  if (!blocks.empty()) rank.spaces[static_cast<std::size_t>(space)] = rank.cells.size();
  for (std::size_t chunk = 0; chunk < blocks.size(); ++chunk) {
    for (int part = 0; part < parts_; ++part) {
      Cell& cell = rank.cells.emplace_back();
      cell.length = length_of(blocks[chunk], part);
      cell.name = {space, static_cast<std::int32_t>(chunk), 1};
      cell.history.record_write({program.rank * lanes_, 1});
    }
  }
}

std::int64_t Proof::length_of(const Block& block, int part) const {
  if (is_between_pairs(ranks_.front()->collective)) return std::int64_t{block.from} * size_ + block.to;
  return block.to < 0 ? block.from : std::int64_t{block.to} * parts_ + part;
}

Session& Proof::session_of(const Call& call) {
  Session& session = sessions_[{call.stage, *call.members}];
  if (!session.frames.empty()) return session;
  session.frames.resize(call.members->size());
  session.traffic = Traffic(static_cast<int>(call.members->size()), lanes_);
  session.messages.resize(session.traffic.channels());
  session.received.resize(session.traffic.channels());
  session.signals.resize(session.traffic.signals());
  session.waited.resize(session.traffic.signals());
  return session;
}

void Proof::add_frame(int number, const Call& call, const Op& op) {
  Session& session = session_of(call);
  Frame& frame = frames_.emplace_back();
  frame.session = &session;
  frame.program = call.program.get();
  frame.rank = number;
  frame.index = frame.program->rank;
  frame.stage = call.stage;
  frame.blocks = settings_[at(number) % settings_.size()].blocks;
  session.frames[at(frame.index)] = &frame;
  Rank& rank = rank_of(number);
  for (const bool is_output : {false, true}) {
    const Operand& range = is_output ? op.dst : op.src;
    const CellNumber first = rank.spaces[static_cast<std::size_t>(range.space)] + at(range.first * parts_);
    frame.places.user[is_output] = address_of(range.count == 0 ? kNowhere : first);
  }
  map_data(call, op, &frame);
  add_own_memory(&frame);
  rank.acts.push_back({&frame});
}

void Proof::map_data(const Call& call, const Op& op, Frame* frame) {
  const Collective collective = frame->program->collective;
  const roda_collective_entry& data = entry_of(collective);
  SpaceMap* maps = frame->places.map;
  for (int w = 0; w < 2; ++w) {
    const int extent = w == 0 ? data.input : data.output;
    SpaceMap& map = maps[w];
    if (extent == RODA_WHOLE) {
      map.prefix = even_prefix(at(chunks_of_data(op) * parts_), frame->program->chunks);
    } else if (extent == RODA_ALL_PARTS) {
      map.prefix = prefix_of(w == 0 ? call.src_ends : call.dst_ends, parts_);
    } else {
      map.prefix.assign(1, 0);
      if (extent == RODA_OWN_PART && w == 1) map.prefix.push_back(at(op.dst.count * parts_));
    }
    map.user.assign(map.prefix.begin(), map.prefix.end() - 1);
    map.block = map.user;
    for (std::size_t c = 0; is_between_pairs(collective) && c < map.block.size(); ++c) {
      map.block[c] = c * at(call.most_blocks);
    }
  }
}

// A cell for each of those, and as long, named from chunk `first` of the space on.
CellNumber Proof::add_like(int rank, CellNumber cell, std::size_t count, Space space, std::int32_t first) {
  std::vector<Cell>& cells = rank_of(rank).cells;
  const CellNumber added = cells.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t length = space == Space::kProducts ? -1 : cells[cell + i].length;
    Cell& made = cells.emplace_back();
    made.length = length;
    made.name = {space, first + static_cast<std::int32_t>(i) / (space == Space::kProducts ? 1 : parts_), 1};
    made.history.record_write({rank * lanes_, 1});
  }
  return added;
}

// The memory of a call's own.
void Proof::add_own_memory(Frame* frame) {
  const Program& program = *frame->program;
  Places& places = frame->places;
  std::vector<Cell>& cells = rank_of(frame->rank).cells;
  // A vector for which a rank has no memory is as long as that of the others.
  const auto data_of = [&](std::size_t w) {
    return cell_at(places.user[cell_at(places.user[w]) == kNowhere ? 1 - w : w]);
  };
  places.program = &program;
  places.staged = program.one_sided();
  places.bucket = frame->blocks == Blocks::kBucket && takes_buckets(program);
  for (std::size_t w = 0; w < 2; ++w) {
    places.block[w] = frame->blocks == Blocks::kUser ? places.user[w] : address_of(kNowhere);
    if (!places.bucket && (frame->blocks == Blocks::kUser || !places.staged || !program.uses_block)) continue;
    const SpaceMap& map = places.map[w];
    places.block[w] = address_of(cells.size());
    for (std::size_t c = 0; c < map.user.size(); ++c) {
      // Where ranks don't know each other's lengths chunks may lie apart.
      cells.resize(cell_at(places.block[w]) + map.block[c]);
      add_like(frame->rank, data_of(w) + map.user[c], map.bytes(static_cast<std::int32_t>(c), 1),
               w == 0 ? Space::kInput : Space::kOutput, static_cast<std::int32_t>(c));
    }
    for (CellNumber i = cell_at(places.block[w]); i < cells.size(); ++i) cells[i].in_block = true;
  }
  const std::size_t of = Places::which(program.scratch_of);
  const SpaceMap& data = places.map[of];
  const std::size_t begin = program.scratch_is_own ? data.prefix[at(program.rank)] : 0;
  places.scratch_stride = program.scratch_is_own ? data.bytes(program.rank, 1) : data.prefix.back();
  places.scratch_begin = address_of(cells.size());
  for (std::int32_t copy = 0; copy < program.scratch_copies; ++copy) {
    const std::int32_t chunks = program.scratch_is_own ? 1 : program.chunks;
    add_like(frame->rank, data_of(of) + begin, places.scratch_stride, Space::kScratch, copy * chunks);
  }
  places.product_bytes = places.product_stride = 1;
  places.products = address_of(add_like(frame->rank, 0, at(program.product_chunks), Space::kProducts, 0));
  const bool is_part = entry_of(program.collective).input == RODA_OWN_PART;
  const bool has_input = cell_at(places.user[0]) != kNowhere;
  const std::size_t before = is_part && has_input ? places.map[1].prefix[at(frame->index)] : 0;
  places.contribution = reinterpret_cast<std::uintptr_t>(places.user[has_input ? 0 : 1]) - before;
}

}  // namespace roda::schedule::verifier
