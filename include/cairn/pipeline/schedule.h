#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cairn::pipeline {

/// One thing a stage does. The first stage loads the inputs of a micro batch,
/// the last one its labels; activations go to the next stage, gradients to the
/// one before.
enum class Op {
  load_micro_batch,
  receive_activation,
  forward,
  send_activation,
  receive_gradient,
  backward,
  send_gradient,
  /// A weight that several stages use belongs to the first of them. Just before
  /// its last backward that stage gets what the others have added up…
  receive_tied_gradients,
  send_tied_gradients,
  step,
  /// …and after the step it gives them the new values.
  share_tied_weights
};

std::string_view op_name(Op op);

/// Buffers hold what belongs to a micro batch on a stage, from its arrival to
/// the end of its last pass there.
struct Instruction {
  Op op{};
  int micro_batch = 0; ///< 0 for those that concern none
  int buffer = 0;      ///< 0 for those that concern none
  bool operator==(const Instruction&) const = default;
};

/// What every stage does, in its order. Plain data: made, printed, checked and
/// timed without a process.
struct Schedule {
  std::string name;
  int micro_batches = 0;
  bool trains = true; ///< false: forward only
  std::vector<std::vector<Instruction>> stages;
  std::vector<int> buffers; ///< of each stage
  bool operator==(const Schedule&) const = default;
};

/// All forward passes, then all backward passes: every micro batch is live at
/// once.
Schedule gpipe(int stages, int micro_batches);
/// Backward passes as early as they can be: stage s of S keeps S - s micro
/// batches live, however many there are.
Schedule one_forward_one_backward(int stages, int micro_batches);
/// Forward only.
Schedule inference(int stages, int micro_batches);

/// The computing part of an order.
struct Pass {
  enum class Kind { forward, backward };
  Kind kind{};
  int micro_batch = 0;
};

/// Completes an order of passes for each stage: puts in the messages, each
/// right after the pass that it comes from in one order for all stages, so that
/// even a sender that blocks until it is heard waits for nobody in a circle;
/// and numbers the buffers. Throws ConfigError if the passes wait for each
/// other in a circle.
Schedule with_messages(
    std::string name,
    int micro_batches,
    const std::vector<std::vector<Pass>>& orders);

/// A chart for people: one line per stage, one column per pass, as if all
/// passes took the same time.
std::string describe(const Schedule& schedule);

} // namespace cairn::pipeline
