#include <cairn/base/error.h>
#include <cairn/pipeline/schedule.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace cairn::pipeline {
namespace {

using Orders = std::vector<std::vector<Pass>>;

struct Transfer {
  Pass pass; ///< the pass whose result it is
  std::size_t from;
  std::size_t to;

  bool of_forward() const { return pass.kind == Pass::Kind::forward; }
  /// The pass that waits for this transfer.
  Pass wanted_by() const {
    Pass result = pass;
    if (of_forward() && to < from) { // from the last stage to the first
      ++result.chunk;
    } else if (!of_forward() && to > from) {
      --result.chunk;
    }
    return result;
  }
};

/// Writes the instructions of one stage.
class StageWriter {
 public:
  StageWriter(const Schedule& schedule, const Orders& orders, std::size_t stage)
      : schedule_(&schedule),
        order_(&orders[stage]),
        stage_(stage),
        stages_(orders.size()),
        asked_before_(order_->size() + 1),
        buffer_of_(items(), none) {
    for (auto& each : ready_) {
      each.assign(items(), false);
    }
    for (auto& each : places_) {
      each.assign(items(), order_->size());
    }
    for (std::size_t place = order_->size(); place-- > 0;) {
      const Pass& pass = (*order_)[place];
      places_[index(pass.kind)][at(pass)] = place;
    }
    ask_ahead(orders, Pass::Kind::backward);
    ask_ahead(orders, Pass::Kind::forward);
    for (int micro_batch = 0; micro_batch < schedule.micro_batches;
         ++micro_batch) {
      if (stage == 0) {
        ready(Pass::Kind::forward)[at({{}, micro_batch, 0})] = true;
      }
    }
  }

  bool done() const { return next_ == order_->size(); }
  bool is_ready() const {
    return !done() && ready_[index(next().kind)][at(next())];
  }

  /// Runs the next pass and returns its message, if it has one.
  std::optional<Transfer> run() {
    const Pass pass = next();
    ask(next_);
    if (++next_ == order_->size() && schedule_->trains) {
      program_.push_back({Op::receive_tied_gradients});
    }
    switch (pass.kind) {
      case Pass::Kind::forward:
        if (is_first(pass) || is_last(pass)) {
          put(Op::load_micro_batch, pass);
        }
        put(Op::forward, pass);
        if (!is_last(pass)) {
          return Transfer{pass, stage_, (stage_ + 1) % stages_};
        }
        ready(Pass::Kind::backward)[at(pass)] = true;
        if (!schedule_->trains) {
          release(pass);
        }
        break;
      case Pass::Kind::backward:
        put(Op::backward, pass);
        ready(Pass::Kind::weights)[at(pass)] = true;
        if (!is_first(pass)) {
          return Transfer{pass, stage_, (stage_ + stages_ - 1) % stages_};
        }
        if (!schedule_->splits_backward) {
          release(pass);
        }
        break;
      case Pass::Kind::weights:
        put(Op::weight_gradients, pass);
        release(pass);
        break;
    }
    return std::nullopt;
  }

  void send(const Transfer& transfer) {
    if (transfer.of_forward()) {
      put(Op::send_activation, transfer.pass);
      if (!schedule_->trains) {
        release(transfer.pass);
      }
    } else {
      put(Op::send_gradient, transfer.pass);
      if (!schedule_->splits_backward) {
        release(transfer.pass);
      }
    }
  }

  /// Lets the pass that waits for the transfer run.
  void arrive(const Transfer& transfer) {
    const Pass pass = transfer.wanted_by();
    ready(pass.kind)[at(pass)] = true;
  }

  std::vector<Instruction> finish() {
    ask(order_->size());
    if (schedule_->trains) {
      for (const Op op :
           {Op::send_tied_gradients, Op::step, Op::share_tied_weights}) {
        program_.push_back({op});
      }
    }
    return std::move(program_);
  }
  int buffers() const { return buffers_; }

 private:
  static constexpr int none = -1;

  const Pass& next() const { return (*order_)[next_]; }
  bool is_first(const Pass& pass) const { return is_first(pass, stage_); }
  bool is_last(const Pass& pass) const { return is_last(pass, stage_); }
  static bool is_first(const Pass& pass, std::size_t stage) {
    return stage == 0 && pass.chunk == 0;
  }
  bool is_last(const Pass& pass, std::size_t stage) const {
    return stage + 1 == stages_ && pass.chunk + 1 == schedule_->chunks;
  }

  /// The passes of this stage that wait for messages of a kind, in the order in
  /// which the messages are sent.
  std::vector<Pass> waiting_passes(const Orders& orders, Pass::Kind kind)
      const {
    const bool forward = kind == Pass::Kind::forward;
    const std::size_t from =
        (stage_ + (forward ? stages_ - 1 : std::size_t{1})) % stages_;
    std::vector<Pass> result;
    for (const Pass& pass : orders[from]) {
      const bool ends = forward ? is_last(pass, from) : is_first(pass, from);
      if (pass.kind == kind && !ends) {
        result.push_back(Transfer{pass, from, stage_}.wanted_by());
      }
    }
    return result;
  }

  /// Decides before which passes the messages of a kind are asked for. Each is
  /// asked for before the pass that precedes the one that waits for it, and in
  /// the order in which they are sent; a gradient not before its activation has
  /// left.
  void ask_ahead(const Orders& orders, Pass::Kind kind) {
    const std::vector<Pass> passes = waiting_passes(orders, kind);
    std::vector<std::size_t> latest;
    for (const Pass& pass : passes) {
      const std::size_t place = places_[index(kind)][at(pass)];
      latest.push_back(place == 0 ? 0 : place - 1);
    }
    for (std::size_t i = passes.size(); i-- > 1;) {
      latest[i - 1] = std::min(latest[i - 1], latest[i]);
    }
    std::size_t earliest = 0;
    for (std::size_t i = 0; i < passes.size(); ++i) {
      if (kind == Pass::Kind::backward) {
        const auto& sent = places_[index(Pass::Kind::forward)];
        earliest = std::max(earliest, sent[at(passes[i])] + 1);
      }
      const std::size_t place =
          std::min(std::max(earliest, latest[i]), order_->size());
      asked_before_[place].push_back(passes[i]);
    }
  }

  void ask(std::size_t place) {
    for (const Pass& pass : asked_before_[place]) {
      put(pass.kind == Pass::Kind::forward ? Op::receive_activation
                                           : Op::receive_gradient,
          pass);
    }
  }

  std::size_t items() const {
    return static_cast<std::size_t>(schedule_->micro_batches) *
        static_cast<std::size_t>(schedule_->chunks);
  }
  std::size_t at(const Pass& pass) const {
    return static_cast<std::size_t>(pass.chunk) *
        static_cast<std::size_t>(schedule_->micro_batches) +
        static_cast<std::size_t>(pass.micro_batch);
  }
  static std::size_t index(Pass::Kind kind) {
    return static_cast<std::size_t>(kind);
  }
  std::vector<bool>& ready(Pass::Kind kind) { return ready_[index(kind)]; }

  void put(Op op, const Pass& pass) {
    int& buffer = buffer_of_[at(pass)];
    if (buffer == none) {
      if (free_.empty()) {
        free_.insert(buffers_++);
      }
      buffer = free_.extract(free_.begin()).value();
    }
    program_.push_back({op, pass.micro_batch, buffer, pass.chunk});
  }
  void release(const Pass& pass) { free_.insert(buffer_of_[at(pass)]); }

  const Schedule* schedule_;
  const std::vector<Pass>* order_;
  std::size_t stage_;
  std::size_t stages_;
  std::size_t next_ = 0;
  /// Places of passes in the order, by kind, chunk and micro batch; its end for
  /// a pass that is not there.
  std::vector<std::size_t> places_[3];
  /// Passes whose messages are asked for before each pass, and at the end.
  std::vector<std::vector<Pass>> asked_before_;
  /// True if the inputs of a pass are there, by kind of pass, chunk and micro
  /// batch.
  std::vector<bool> ready_[3];
  std::vector<int> buffer_of_;
  std::set<int> free_;
  int buffers_ = 0;
  std::vector<Instruction> program_;
};

bool has_any(const Orders& orders, Pass::Kind kind) {
  return std::any_of(orders.begin(), orders.end(), [&](const auto& order) {
    return std::any_of(order.begin(), order.end(), [&](const Pass& pass) {
      return pass.kind == kind;
    });
  });
}

void check_passes(const Schedule& schedule, const Orders& orders) {
  for (std::size_t stage = 0; stage < orders.size(); ++stage) {
    for (const Pass& pass : orders[stage]) {
      if (pass.micro_batch < 0 || pass.micro_batch >= schedule.micro_batches) {
        throw UsageError(
            {.what = "a pass of a micro batch that does not exist",
             .where =
                 fmt::format("schedule {}, stage {}", schedule.name, stage),
             .values = fmt::format(
                 "{} of {}",
                 pass.micro_batch,
                 schedule.micro_batches)});
      }
      if (pass.chunk < 0 || pass.chunk >= schedule.chunks) {
        throw UsageError(
            {.what = "a pass of a chunk that does not exist",
             .where =
                 fmt::format("schedule {}, stage {}", schedule.name, stage),
             .values = fmt::format("{} of {}", pass.chunk, schedule.chunks)});
      }
    }
  }
}

/// Lets every stage that can make a pass do so; returns their messages.
std::vector<Transfer> run_round(std::vector<StageWriter>& writers) {
  std::vector<std::size_t> ready;
  for (std::size_t stage = 0; stage < writers.size(); ++stage) {
    if (writers[stage].is_ready()) {
      ready.push_back(stage);
    }
  }
  std::vector<Transfer> transfers;
  for (const std::size_t stage : ready) {
    if (auto transfer = writers[stage].run()) {
      transfers.push_back(*transfer);
    }
  }
  if (ready.empty()) {
    throw UsageError(
        {.what = "the stages of a pipeline wait for each other",
         .remedy = "order the passes so that each comes after those it needs "
                   "on the neighbouring stages"});
  }
  return transfers;
}

} // namespace

Schedule with_messages(
    std::string name,
    int micro_batches,
    const Orders& orders,
    int chunks) {
  Schedule schedule{
      .name = std::move(name),
      .micro_batches = micro_batches,
      .chunks = chunks,
      .trains = has_any(orders, Pass::Kind::backward),
      .splits_backward = has_any(orders, Pass::Kind::weights)};
  check_passes(schedule, orders);
  std::vector<StageWriter> writers;
  for (std::size_t stage = 0; stage < orders.size(); ++stage) {
    writers.emplace_back(schedule, orders, stage);
  }
  const auto done = [](const StageWriter& writer) { return writer.done(); };
  while (!std::all_of(writers.begin(), writers.end(), done)) {
    for (const Transfer& transfer : run_round(writers)) {
      writers[transfer.from].send(transfer);
      writers[transfer.to].arrive(transfer);
    }
  }
  for (StageWriter& writer : writers) {
    schedule.buffers.push_back(writer.buffers());
    schedule.stages.push_back(writer.finish());
  }
  return schedule;
}

} // namespace cairn::pipeline
