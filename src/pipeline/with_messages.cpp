#include <cairn/base/error.h>
#include <cairn/pipeline/schedule.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace cairn::pipeline {
namespace {

using Orders = std::vector<std::vector<Pass>>;

struct Transfer {
  Pass::Kind kind;
  std::size_t from;
  std::size_t to;
  int micro_batch;

  /// Gradients first: they free the buffer that the next activation takes. Then
  /// every other stage, so that blocking messages go over all links at once,
  /// not down the line one after the other.
  std::pair<bool, std::size_t> rank() const {
    return {kind == Pass::Kind::forward, from % 2};
  }
};

/// One stage while its instructions are written.
class StageWriter {
 public:
  StageWriter(const Schedule& schedule, const Orders& orders, std::size_t stage)
      : order_(&orders[stage]),
        first_(stage == 0),
        last_(stage + 1 == orders.size()),
        trains_(schedule.trains),
        arrived_{
            std::vector<bool>(at(schedule.micro_batches), first_),
            std::vector<bool>(at(schedule.micro_batches), last_)},
        buffer_of_(at(schedule.micro_batches), none) {}

  bool done() const { return next_ == order_->size(); }
  const Pass& next() const { return (*order_)[next_]; }
  bool ready() const {
    return !done() && arrived(next().kind)[at(next().micro_batch)];
  }

  Pass run() {
    const Pass pass = next();
    if (pass.kind == Pass::Kind::forward) {
      if (first_ || last_) {
        put(Op::load_micro_batch, pass.micro_batch);
      }
      put(Op::forward, pass.micro_batch);
      if (last_ && !trains_) {
        release(pass.micro_batch);
      }
    } else {
      if (next_ + 1 == order_->size()) {
        program_.push_back({Op::receive_tied_gradients});
      }
      put(Op::backward, pass.micro_batch);
      if (first_) {
        release(pass.micro_batch);
      }
    }
    ++next_;
    return pass;
  }

  void send(const Transfer& transfer) {
    if (transfer.kind == Pass::Kind::forward) {
      put(Op::send_activation, transfer.micro_batch);
      if (!trains_) {
        release(transfer.micro_batch);
      }
    } else {
      put(Op::send_gradient, transfer.micro_batch);
      release(transfer.micro_batch);
    }
  }

  void receive(const Transfer& transfer) {
    put(transfer.kind == Pass::Kind::forward ? Op::receive_activation
                                             : Op::receive_gradient,
        transfer.micro_batch);
    arrived(transfer.kind)[at(transfer.micro_batch)] = true;
  }

  std::vector<Instruction> finish() {
    if (trains_) {
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
  static std::size_t at(int micro_batch) {
    return static_cast<std::size_t>(micro_batch);
  }
  std::vector<bool>& arrived(Pass::Kind kind) {
    return arrived_[kind == Pass::Kind::backward];
  }
  const std::vector<bool>& arrived(Pass::Kind kind) const {
    return arrived_[kind == Pass::Kind::backward];
  }

  void put(Op op, int micro_batch) {
    int& buffer = buffer_of_[at(micro_batch)];
    if (buffer == none) {
      if (free_.empty()) {
        free_.insert(buffers_++);
      }
      buffer = free_.extract(free_.begin()).value();
    }
    program_.push_back({op, micro_batch, buffer});
  }
  void release(int micro_batch) { free_.insert(buffer_of_[at(micro_batch)]); }

  const std::vector<Pass>* order_;
  bool first_;
  bool last_;
  bool trains_;
  std::size_t next_ = 0;
  /// By micro batch: what a forward, what a backward pass needs.
  std::vector<bool> arrived_[2];
  std::vector<int> buffer_of_;
  std::set<int> free_;
  int buffers_ = 0;
  std::vector<Instruction> program_;
};

bool any_backward(const Orders& orders) {
  return std::any_of(orders.begin(), orders.end(), [](const auto& order) {
    return std::any_of(order.begin(), order.end(), [](const Pass& pass) {
      return pass.kind == Pass::Kind::backward;
    });
  });
}

void check_micro_batches(const Schedule& schedule, const Orders& orders) {
  for (std::size_t stage = 0; stage < orders.size(); ++stage) {
    for (const Pass& pass : orders[stage]) {
      if (pass.micro_batch < 0 || pass.micro_batch >= schedule.micro_batches) {
        throw ConfigError(
            {.what = "a pass of a micro batch that does not exist",
             .where =
                 fmt::format("schedule {}, stage {}", schedule.name, stage),
             .values = fmt::format(
                 "{} of {}",
                 pass.micro_batch,
                 schedule.micro_batches)});
      }
    }
  }
}

/// Every stage that can makes a pass; what then has to travel, in order.
std::vector<Transfer> run_round(std::vector<StageWriter>& writers) {
  std::vector<std::size_t> ready;
  for (std::size_t stage = 0; stage < writers.size(); ++stage) {
    if (writers[stage].ready()) {
      ready.push_back(stage);
    }
  }
  std::vector<Transfer> transfers;
  for (const std::size_t stage : ready) {
    const Pass pass = writers[stage].run();
    const bool forward = pass.kind == Pass::Kind::forward;
    if (forward ? stage + 1 < writers.size() : stage > 0) {
      const std::size_t to = forward ? stage + 1 : stage - 1;
      transfers.push_back({pass.kind, stage, to, pass.micro_batch});
    }
  }
  if (ready.empty()) {
    throw ConfigError(
        {.what = "the stages of a pipeline wait for each other",
         .remedy = "order the passes so that each comes after those it needs "
                   "on the neighbouring stages"});
  }
  std::stable_sort(
      transfers.begin(),
      transfers.end(),
      [](const Transfer& a, const Transfer& b) { return a.rank() < b.rank(); });
  return transfers;
}

} // namespace

Schedule with_messages(
    std::string name,
    int micro_batches,
    const Orders& orders) {
  Schedule schedule{
      .name = std::move(name),
      .micro_batches = micro_batches,
      .trains = any_backward(orders)};
  check_micro_batches(schedule, orders);
  std::vector<StageWriter> writers;
  for (std::size_t stage = 0; stage < orders.size(); ++stage) {
    writers.emplace_back(schedule, orders, stage);
  }
  const auto done = [](const StageWriter& writer) { return writer.done(); };
  while (!std::all_of(writers.begin(), writers.end(), done)) {
    for (const Transfer& transfer : run_round(writers)) {
      writers[transfer.from].send(transfer);
      writers[transfer.to].receive(transfer);
    }
  }
  for (StageWriter& writer : writers) {
    schedule.buffers.push_back(writer.buffers());
    schedule.stages.push_back(writer.finish());
  }
  return schedule;
}

} // namespace cairn::pipeline
