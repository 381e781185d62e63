#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cairn::pipeline {

/// A kind of step of a stage. The first stage loads the inputs of a micro
/// batch, the last one its labels; activations go to the next stage, gradients
/// to the one before.
enum class Op {
  load_micro_batch,
  receive_activation,
  forward,
  send_activation,
  receive_gradient,
  /// The whole backward pass. In a schedule that splits it, only the part for
  /// the gradients of the inputs.
  backward,
  send_gradient,
  /// The products for the gradients of weights, which backward has put off.
  weight_gradients,
  /// Gradients of a weight that several stages use. The weight belongs to the
  /// first of these stages, which receives the sums of the others just before
  /// its own last gradients.
  receive_tied_gradients,
  send_tied_gradients,
  step,
  /// New values of shared weights, which their owner gives the other stages
  /// after the step.
  share_tied_weights
};

std::string_view op_name(Op op);

/// A step of a stage. Its buffer holds the tensors of a micro batch in a chunk
/// of a stage, from its arrival to the end of its last pass there.
struct Instruction {
  Op op{};
  int micro_batch = 0; ///< 0 where the step concerns none
  int buffer = 0;      ///< 0 where the step concerns none
  int chunk = 0;       ///< 0 where the step concerns none
  bool operator==(const Instruction&) const = default;
};

/// The steps of every stage, in order. It is made, printed, checked and timed
/// without a process.
///
/// A stage may have several chunks of the model, its virtual stages. Chunk c of
/// stage s of S is part c S + s of the whole: activations that leave the last
/// stage come back to the first one until they have been through all chunks.
struct Schedule {
  std::string name;
  int micro_batches = 0;
  int chunks = 1;               ///< on each stage
  bool trains = true;           ///< false: forward only
  bool splits_backward = false; ///< weight_gradients are passes of their own
  std::vector<std::vector<Instruction>> stages;
  std::vector<int> buffers; ///< number on each stage
  bool operator==(const Schedule&) const = default;
};

/// Runs all forward passes, then all backward passes: every micro batch is live
/// at once.
Schedule gpipe(int stages, int micro_batches);
/// 1F1B: runs backward passes as early as possible. Stage s of S keeps S - s
/// micro batches live, however many there are.
Schedule one_forward_one_backward(int stages, int micro_batches);
/// 1F1B with several chunks on each stage, in Megatron's order: the chunks take
/// turns, each with a group of as many micro batches as there are stages. The
/// idle time is divided by the number of chunks; more messages are sent and
/// more is live. If the micro batches are no multiple of the stages, the last
/// group leaves gaps. With one chunk this is 1F1B.
Schedule interleaved(int stages, int micro_batches, int chunks);
/// ZB-H1 of "Zero Bubble Pipeline Parallelism" (Qi et al., 2023): 1F1B whose
/// backward passes the gradients of inputs on at once and leaves those of
/// weights for idle times. No stage has more than S micro batches live, as many
/// as the first stage of 1F1B.
Schedule zero_bubble_h1(int stages, int micro_batches);
/// Runs forward passes only.
Schedule inference(int stages, int micro_batches, int chunks = 1);

/// The names that make_schedule() knows: gpipe, 1f1b, interleaved, zb-h1.
const std::vector<std::string_view>& schedule_names();
/// Makes a schedule by its name. Throws ConfigError for an unknown name, or for
/// several chunks where the schedule has none.
Schedule make_schedule(
    std::string_view name,
    int stages,
    int micro_batches,
    int chunks = 1);

/// A computing step in the order of a stage.
struct Pass {
  enum class Kind { forward, backward, weights };
  Kind kind{};
  int micro_batch = 0;
  int chunk = 0;
  bool operator==(const Pass&) const = default;
};

/// Completes an order of passes for each stage with messages and buffer
/// numbers. Each message leaves right after the pass that it comes from, in one
/// order for all stages, so that even a sender that blocks until it is heard
/// waits for nobody in a circle. Within that order an activation is asked for
/// before a backward pass beside which it can arrive. If there are passes for
/// weights, backward is split. Throws UsageError if the passes wait for each
/// other in a circle.
Schedule with_messages(
    std::string name,
    int micro_batches,
    const std::vector<std::vector<Pass>>& orders,
    int chunks = 1);

/// Returns a schedule of the same passes in which every message is asked for
/// after the passes of the time when it is sent. It suits hosts that wait for
/// the announcement of each message before they queue the next pass.
Schedule with_late_messages(const Schedule& schedule);

/// A chart for people: one line per stage, one column per pass, as if all
/// passes took the same time.
std::string describe(const Schedule& schedule);

} // namespace cairn::pipeline
