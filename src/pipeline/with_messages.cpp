#include "pipeline/pass_of.h"

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

  /// Order of transfers that wait for the end of a round. Gradients come first:
  /// they free the buffer that the next activation takes. Then every other
  /// stage, so that blocking messages go over all links at once, not down the
  /// line one after the other.
  std::pair<bool, std::size_t> rank() const { return {of_forward(), from % 2}; }
};

/// Writes the instructions of one stage.
class StageWriter {
 public:
  StageWriter(const Schedule& schedule, const Orders& orders, std::size_t stage)
      : schedule_(&schedule),
        order_(&orders[stage]),
        stage_(stage),
        stages_(orders.size()),
        buffer_of_(items(), none) {
    for (auto& each : ready_) {
      each.assign(items(), false);
    }
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

  bool goes_backward() const { return next().kind != Pass::Kind::forward; }

  /// Runs the next pass and returns its message, if it has one.
  std::optional<Transfer> run() {
    const Pass pass = next();
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

  void receive(const Transfer& transfer) {
    const Pass pass = transfer.wanted_by();
    put(transfer.of_forward() ? Op::receive_activation : Op::receive_gradient,
        pass);
    ready(pass.kind)[at(pass)] = true;
  }

  std::vector<Instruction> finish() {
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
  bool is_first(const Pass& pass) const {
    return stage_ == 0 && pass.chunk == 0;
  }
  bool is_last(const Pass& pass) const {
    return stage_ + 1 == stages_ && pass.chunk + 1 == schedule_->chunks;
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

void deliver(std::vector<StageWriter>& writers, const Transfer& transfer) {
  writers[transfer.from].send(transfer);
  writers[transfer.to].receive(transfer);
}

/// Lets every stage that can make a pass do so, and delivers their messages:
/// in one order for all stages, so that even a sender that blocks until it is
/// heard waits for nobody in a circle. An activation is asked for before the
/// backward pass that its receiver makes in the same round, and so arrives
/// beside that pass, unless `late`.
void run_round(std::vector<StageWriter>& writers, bool late) {
  std::vector<std::size_t> ready;
  std::vector<bool> goes_backward(writers.size());
  for (std::size_t stage = 0; stage < writers.size(); ++stage) {
    if (writers[stage].is_ready()) {
      ready.push_back(stage);
      goes_backward[stage] = writers[stage].goes_backward();
    }
  }
  if (ready.empty()) {
    throw UsageError(
        {.what = "the stages of a pipeline wait for each other",
         .remedy = "order the passes so that each comes after those it needs "
                   "on the neighbouring stages"});
  }
  std::vector<Transfer> transfers;
  for (const std::size_t stage : ready) {
    const auto transfer = writers[stage].run();
    if (!transfer) {
      continue;
    }
    if (!late && transfer->of_forward() && transfer->to > stage &&
        goes_backward[transfer->to]) {
      deliver(writers, *transfer);
    } else {
      transfers.push_back(*transfer);
    }
  }
  std::stable_sort(
      transfers.begin(),
      transfers.end(),
      [](const Transfer& a, const Transfer& b) { return a.rank() < b.rank(); });
  for (const Transfer& transfer : transfers) {
    deliver(writers, transfer);
  }
}

Schedule complete(Schedule schedule, const Orders& orders, bool late) {
  schedule.trains = has_any(orders, Pass::Kind::backward);
  schedule.splits_backward = has_any(orders, Pass::Kind::weights);
  check_passes(schedule, orders);
  std::vector<StageWriter> writers;
  for (std::size_t stage = 0; stage < orders.size(); ++stage) {
    writers.emplace_back(schedule, orders, stage);
  }
  const auto done = [](const StageWriter& writer) { return writer.done(); };
  while (!std::all_of(writers.begin(), writers.end(), done)) {
    run_round(writers, late);
  }
  for (StageWriter& writer : writers) {
    schedule.buffers.push_back(writer.buffers());
    schedule.stages.push_back(writer.finish());
  }
  return schedule;
}

Orders passes_of(const Schedule& schedule) {
  Orders orders;
  for (const std::vector<Instruction>& program : schedule.stages) {
    auto& order = orders.emplace_back();
    for (const Instruction& each : program) {
      if (const auto kind = pass_of(each.op)) {
        order.push_back({*kind, each.micro_batch, each.chunk});
      }
    }
  }
  return orders;
}

} // namespace

Schedule with_messages(
    std::string name,
    int micro_batches,
    const Orders& orders,
    int chunks) {
  return complete(
      {.name = std::move(name),
       .micro_batches = micro_batches,
       .chunks = chunks},
      orders,
      /*late=*/false);
}

Schedule with_late_messages(const Schedule& schedule) {
  return complete(
      {.name = schedule.name,
       .micro_batches = schedule.micro_batches,
       .chunks = schedule.chunks},
      passes_of(schedule),
      /*late=*/true);
}

} // namespace cairn::pipeline
