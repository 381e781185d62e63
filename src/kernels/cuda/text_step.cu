#include "kernels/internal/cuda/text_step.h"

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/bulk_copies.cuh"
#include "kernels/cuda/fast_math.cuh"
#include "kernels/cuda/kept_pages.cuh"
#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/messages.cuh"
#include "kernels/cuda/tensor_core.cuh"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

// One kernel for a whole step, with one block for each processor. A block has
// some rows of every weight. One warp brings them to shared memory by bulk
// copies, into a ring of slots that takes nearly all of that memory. Weights do
// not depend on what is computed, so this warp waits for free slots only, and
// memory is busy while blocks wait for each other.
//
// The rows of a weight are divided into units of up to seven rows. The results
// of a unit are one message (see messages.cuh): seven values and a number.
// Every block reads the messages that it needs, and has the whole residual
// stream in its own memory. A layer has five exchanges: queries, keys and
// values; attention; and behind dense, up and down.
//
// A message is overwritten in the next layer. By then every block has read it:
// the writer has since received messages of all blocks that they sent later.

namespace cairn::kernels::cuda {
namespace {

#ifndef STEP_WARPS
#define STEP_WARPS 15
#endif
constexpr int step_warps = STEP_WARPS; ///< that compute, at most 16
constexpr int step_threads = step_warps * warp_size;
constexpr int unit_rows = 7;
constexpr int most_group = 8; ///< units whose sums are in memory at a time
constexpr int most_slots = 32;
/// Floats from one row's sums of warps to the next.
constexpr int sums_step = 20;
constexpr int sums_floats = most_group * 8 * sums_step;
constexpr int most_splits = 8;
/// Values of a head in a message of attention.
constexpr int part_values = 5;
constexpr int most_head = 128;
constexpr std::int64_t barrier_bytes = 2 * most_slots * 8;
constexpr int least_slots = 2;
constexpr int enough_slots = 8;

/// How the rows of a weight are divided.
struct Division {
  unsigned rows;
  unsigned each;  ///< units of a block
  unsigned units; ///< of all blocks
  int slices;     ///< of the columns

  /// The block's own unit `i`.
  __device__ unsigned of_block(unsigned i) const {
#ifdef STEP_SWEEP
    return i * gridDim.x + blockIdx.x;
#else
    return blockIdx.x * each + i;
#endif
  }
  __device__ int begin(unsigned unit) const {
    return static_cast<int>(rows * unit / units);
  }
  /// The unit that has a row.
  __device__ unsigned unit_of(int row) const {
    return ((static_cast<unsigned>(row) + 1) * units - 1) / rows;
  }
};

/// How a step is divided over blocks, and a block's memory.
struct StepPlan {
  Division query_key_value;
  Division dense;
  Division up;
  Division down;
  Division head;
  int splits;  ///< of a text's keys
  int columns; ///< of a slice, a multiple of 64
  int slots;
  int slot_pieces;
  // Places in shared memory, in pieces of 16 bytes from the beginning.
  int x_at;
  int hidden_at;
  int head_at; ///< query, key and value of one head
  int sums_at;
  int ring_at;
  // Places in the messages.
  int attended_at;
  int dense_at;
  int up_at;
  int down_at;
};

/// A place in the ring.
struct Turn {
  int slot = 0;
  unsigned phase = 0;

  __device__ void advance(int slots) {
    if (++slot == slots) {
      slot = 0;
      ++phase;
    }
  }
};

struct Memory {
  CopyBarrier* full;
  CopyBarrier* empty;
  uint4* x; ///< what the next product multiplies
  std::uint16_t* hidden;
  std::uint16_t* head;
  float* sums;
  uint4* ring;
};

__device__ inline bool is_message(const uint4& message, unsigned number) {
#ifdef STEP_NO_EXCHANGE
  return true;
#endif
  return message.w >> 16U == number;
}

__device__ inline uint4
receive(const uint4* from, uint4 message, unsigned number) {
  while (!is_message(message, number)) {
    wait_for_messages();
    message = look_at_message(from);
  }
  return message;
}

/// 16 bits of a message.
__device__ inline std::uint16_t half_of(const uint4& message, int i) {
  const unsigned word = i < 2 ? message.x
      : i < 4                 ? message.y
      : i < 6                 ? message.z
                              : message.w;
  return static_cast<std::uint16_t>(i % 2 == 0 ? word : word >> 16U);
}

/// The warp that fills the ring.
class Filler {
 public:
  __device__ Filler(const TextStep& x, const StepPlan& plan, const Memory& m)
      : x_(x),
        plan_(plan),
        memory_(m),
        lane_(static_cast<int>(threadIdx.x) % warp_size) {}

  __device__ void fill() {
    const int hidden = x_.shape.hidden;
    const TextStepLayer* layer = x_.layers;
    const void* query_key_value = layer->query_key_value;
    const void* dense = layer->dense;
    const void* up = layer->up;
    const void* down = layer->down;
    for (int i = 0; i < x_.shape.layers; ++i) {
      // The next layer's places come while this layer's weights do.
      const TextStepLayer* const next =
          i + 1 < x_.shape.layers ? layer + 1 : layer;
      const void* const next_query_key_value = next->query_key_value;
      const void* const next_dense = next->dense;
      const void* const next_up = next->up;
      const void* const next_down = next->down;
      copy(plan_.query_key_value, query_key_value, hidden);
      copy(plan_.dense, dense, hidden);
      copy(plan_.up, up, hidden);
      copy(plan_.down, down, x_.shape.inner);
      layer = next;
      query_key_value = next_query_key_value;
      dense = next_dense;
      up = next_up;
      down = next_down;
    }
    copy(plan_.head, x_.head, hidden);
  }

 private:
  __device__ void
  copy(const Division& division, const void* weight, int depth) {
    for (unsigned c = 0; c < division.each; ++c) {
      const unsigned unit = division.of_block(c);
      const int begin = division.begin(unit);
      const int rows = division.begin(unit + 1) - begin;
      const auto* const from = static_cast<const std::uint16_t*>(weight) +
          static_cast<std::int64_t>(begin) * depth;
      for (int slice = 0; slice < division.slices; ++slice) {
        if (turn_.phase > 0) {
          wait_for_phase(memory_.empty + turn_.slot, turn_.phase - 1);
        }
        uint4* const to = memory_.ring + turn_.slot * plan_.slot_pieces;
        CopyBarrier* const full = memory_.full + turn_.slot;
        const unsigned bytes = static_cast<unsigned>(plan_.columns) * 2;
#ifdef STEP_NO_COPIES
        if (lane_ == 0) {
          arrive(full);
        }
        turn_.advance(plan_.slots);
        continue;
#endif
#ifdef STEP_COPY_BYTES
        if (division.slices == 1) {
          const unsigned all = static_cast<unsigned>(rows) * bytes;
          for (unsigned i = lane_ * STEP_COPY_BYTES; i < all; i += 32 * STEP_COPY_BYTES) {
            const unsigned some = all - i < STEP_COPY_BYTES ? all - i : STEP_COPY_BYTES;
            copy_in_bulk(to + i / 16, from + i / 2, some, full);
          }
        } else
#endif
        if (lane_ < rows) {
          copy_in_bulk(
              to + lane_ * (plan_.columns / 8),
              from + static_cast<std::int64_t>(lane_) * depth +
                  slice * plan_.columns,
              bytes,
              full);
        }
        meet_warp();
        if (lane_ == 0) {
          arrive_for(full, static_cast<unsigned>(rows) * bytes);
        }
        turn_.advance(plan_.slots);
      }
    }
  }

  const TextStep& x_;
  const StepPlan& plan_;
  const Memory& memory_;
  int lane_;
  Turn turn_;
};

#ifdef STEP_TRACE
__device__ long long step_trace[132][64][16];
#define MARK(k) \
  if (thread_ == 0) step_trace[blockIdx.x][layer_][k] = clock64()
#else
#define MARK(k)
#endif
/// The warps that compute.
template <Element element, int lanes>
class Worker {
 public:
  __device__ Worker(const TextStep& x, const StepPlan& plan, const Memory& m)
      : x_(x),
        plan_(plan),
        memory_(m),
        thread_(static_cast<int>(threadIdx.x)),
        lane_(thread_ % warp_size),
        warp_(thread_ / warp_size),
        messages_(static_cast<uint4*>(x.messages)) {}

  __device__ void work() {
    position_ = x_.row.positions[0];
    table_ = x_.pages.table +
        static_cast<std::int64_t>(x_.row.places[0]) * x_.pages.width;
    const auto first = static_cast<unsigned>(
        x_.number * static_cast<std::uint64_t>(x_.shape.layers));
    embed();
    for (int i = 0; i < x_.shape.layers; ++i) {
      const TextStepLayer layer = x_.layers[i];
      number_ = (first + static_cast<unsigned>(i) + 1) & 0xffffU;
#ifdef STEP_TRACE
      layer_ = i;
      ring_wait_ = 0;
#endif
      MARK(0);
      if (i > 0) {
        normalize(
            layer.input_gamma,
            layer.input_beta,
            messages_ + plan_.down_at,
            (number_ - 1) & 0xffffU,
            plan_.down);
      } else {
        normalize_first(layer.input_gamma, layer.input_beta);
      }
      MARK(1);
      multiply(
          plan_.query_key_value,
          layer.query_key_value_bias,
          Activation::none,
          false,
          messages_);
      MARK(2);
      attend(i);
      MARK(3);
      join_splits();
      MARK(4);
      multiply(
          plan_.dense,
          layer.dense_bias,
          Activation::none,
          true,
          messages_ + plan_.dense_at);
      MARK(5);
      normalize(
          layer.inner_gamma,
          layer.inner_beta,
          messages_ + plan_.dense_at,
          number_,
          plan_.dense);
      MARK(6);
      multiply(
          plan_.up,
          layer.up_bias,
          x_.activation,
          false,
          messages_ + plan_.up_at);
      MARK(7);
      receive_inner();
      MARK(8);
      multiply(
          plan_.down,
          layer.down_bias,
          Activation::none,
          true,
          messages_ + plan_.down_at);
      MARK(9);
#ifdef STEP_TRACE
      if (thread_ == 0) step_trace[blockIdx.x][layer_][10] = ring_wait_;
#endif
    }
#ifdef STEP_TRACE
    ++layer_;
#endif
    MARK(0);
    normalize(
        x_.final_gamma,
        x_.final_beta,
        messages_ + plan_.down_at,
        number_,
        plan_.down);
    multiply(plan_.head, x_.head_bias, Activation::none, false, nullptr);
    MARK(1);
  }

 private:
  __device__ void meet() { meet_first(step_threads); }

  __device__ std::uint16_t* x_halves() {
    return reinterpret_cast<std::uint16_t*>(memory_.x);
  }

  __device__ void embed() {
    const std::int64_t columns = x_.shape.hidden;
    const std::int64_t word = x_.row.tokens[0] * columns;
    const std::int64_t position = (position_ + x_.embedded.offset) * columns;
    for (int i = thread_ * 4; i < x_.shape.hidden; i += step_threads * 4) {
      Lane values[4];
      load(x_.embedded.words, element, word + i, values);
      if (x_.embedded.positions != nullptr) {
        Lane added[4];
        load(x_.embedded.positions, element, position + i, added);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          values[k].value += added[k].value;
        }
      }
      store(values, memory_.hidden, element, i);
    }
    meet();
  }

  /// Four values of gamma and beta.
  struct Scales {
    Lane gamma[4];
    Lane beta[4];
  };
  __device__ Scales scales_at(const void* gamma, const void* beta, int i) {
    Scales scales;
    load(gamma, element, i, scales.gamma);
    if (beta != nullptr) {
      load(beta, element, i, scales.beta);
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        scales.beta[k].value = 0;
      }
    }
    return scales;
  }

  __device__ void add_distance(Pair& sums, float value) {
    const float distance = value - origin_;
    sums.first += distance;
    sums.second += distance * distance;
  }

  /// Writes the norm of the residual stream to x. `sums` are of this thread's
  /// values, of their distances from the origin.
  __device__ void finish_norm(
      Pair sums,
      const void* gamma,
      const void* beta,
      Scales scales) {
    sums = over_warp(sums, Add());
    auto* const of_warps = reinterpret_cast<Pair*>(memory_.sums);
    if (lane_ == 0) {
      of_warps[warp_] = sums;
    }
    meet();
    sums = lane_ < step_warps ? of_warps[lane_] : Pair{0, 0};
    sums = over_warp(sums, Add());
    const auto columns = static_cast<float>(x_.shape.hidden);
    const float shift = sums.first / columns;
    const float spread = sums.second / columns - shift * shift;
    const float variance = spread < 0 ? 0 : spread; // NaN stays
    const float mean = origin_ + shift;
    const float inverse = rsqrtf(variance + x_.epsilon);
    for (int i = thread_ * 4; i < x_.shape.hidden; i += step_threads * 4) {
      if (i >= step_threads * 4) {
        scales = scales_at(gamma, beta, i);
      }
      Lane values[4];
      load(memory_.hidden, element, i, values);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        values[k].value =
            (values[k].value - mean) * inverse * scales.gamma[k].value +
            scales.beta[k].value;
      }
      store(values, memory_.x, element, i);
    }
    origin_ = mean; // the next mean is not far from it
    meet();
  }

  __device__ Scales first_scales(const void* gamma, const void* beta) {
    return thread_ * 4 < x_.shape.hidden ? scales_at(gamma, beta, thread_ * 4)
                                         : Scales{};
  }

  __device__ void normalize_first(const void* gamma, const void* beta) {
    const Scales scales = first_scales(gamma, beta);
    origin_ = from_bits(memory_.hidden[0], element);
    Pair sums{0, 0};
    for (int i = thread_; i < x_.shape.hidden; i += step_threads) {
      add_distance(sums, from_bits(memory_.hidden[i], element));
    }
    finish_norm(sums, gamma, beta, scales);
  }

  /// Receives the residual stream, and writes its norm to x.
  __device__ void normalize(
      const void* gamma,
      const void* beta,
      const uint4* messages,
      unsigned number,
      const Division& division) {
    const Scales scales = first_scales(gamma, beta);
    Pair sums{0, 0};
    for (auto unit = static_cast<unsigned>(thread_); unit < division.units;
         unit += step_threads) {
      const uint4* const from = messages + unit;
      const uint4 early = look_at_message(from);
      const int begin = division.begin(unit);
      const int rows = division.begin(unit + 1) - begin;
      const uint4 message = receive(from, early, number);
#pragma unroll
      for (int i = 0; i < unit_rows; ++i) {
        if (i < rows) {
          const std::uint16_t bits = half_of(message, i);
          memory_.hidden[begin + i] = bits;
          add_distance(sums, from_bits(bits, element));
        }
      }
    }
    finish_norm(sums, gamma, beta, scales);
  }

  /// Receives what the last product of a layer multiplies.
  __device__ void receive_inner() {
    const Division& division = plan_.up;
    const uint4* const messages = messages_ + plan_.up_at;
    constexpr int at_once = 2;
    for (auto first = static_cast<unsigned>(thread_); first < division.units;
         first += at_once * step_threads) {
      uint4 early[at_once];
#pragma unroll
      for (int k = 0; k < at_once; ++k) {
        const unsigned unit = first + static_cast<unsigned>(k * step_threads);
        if (unit < division.units) {
          early[k] = look_at_message(messages + unit);
        }
      }
#pragma unroll
      for (int k = 0; k < at_once; ++k) {
        const unsigned unit = first + static_cast<unsigned>(k * step_threads);
        if (unit < division.units) {
          const int begin = division.begin(unit);
          const int rows = division.begin(unit + 1) - begin;
          const uint4 message = receive(messages + unit, early[k], number_);
#pragma unroll
          for (int i = 0; i < unit_rows; ++i) {
            if (i < rows) {
              x_halves()[begin + i] = half_of(message, i);
            }
          }
        }
      }
    }
    meet();
  }

  /// Multiplies the block's rows of a weight by x. The results go to messages,
  /// or to the scores.
  __device__ void multiply(
      const Division& division,
      const void* bias,
      Activation activation,
      bool adds,
      uint4* messages) {
    int buffer = 0;
    for (unsigned c = 0; c < division.each; c += most_group) {
      const unsigned count =
          division.each - c < most_group ? division.each - c : most_group;
      float* const sums = memory_.sums + buffer * sums_floats;
      // What is added to this lane's first result comes early.
      const float early =
          bias_at(division, division.of_block(c + static_cast<unsigned>(warp_)), bias);
      for (unsigned i = 0; i < count; ++i) {
        multiply_unit(division.slices, sums + i * 8 * sums_step);
      }
      meet();
      for (auto i = static_cast<unsigned>(warp_); i < count; i += step_warps) {
        finish_unit(
            division,
            division.of_block(c + i),
            sums + i * 8 * sums_step,
            early,
            activation,
            adds,
            messages);
      }
      buffer ^= 1;
    }
  }

  __device__ float
  bias_at(const Division& division, unsigned unit, const void* bias) {
    if (bias == nullptr || unit >= division.units) {
      return 0;
    }
    const int row = division.begin(unit) + lane_ / 4;
    if (row >= division.begin(unit + 1)) {
      return 0;
    }
    Lane value[1];
    load(bias, element, row, value);
    return value[0].value;
  }

  /// The sums of this warp's columns of a unit. Lane 4 g + t reads pieces of
  /// row g. Odd rows take the two halves of 64 columns in the other order, so
  /// that rows, which lie a multiple of 128 bytes apart, are read from
  /// different banks at a time; x has a row for either order.
  __device__ void multiply_unit(int slices, float* sums) {
    const int g = lane_ / 4;
    const int t = lane_ % 4;
    const int row = g < unit_rows ? g : unit_rows - 1;
    const int odd = g & 1;
    const int pieces = plan_.columns / 8;
    const int pairs = plan_.columns / 64;
    float part[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        part[i][k] = 0;
      }
    }
    for (int slice = 0; slice < slices; ++slice) {
      const uint4* const weight =
          memory_.ring + turn_.slot * plan_.slot_pieces + row * pieces + t;
      const uint4* const x = memory_.x + slice * pieces + t;
#ifdef STEP_TRACE
      const long long before = clock64();
#endif
      wait_for_phase(memory_.full + turn_.slot, turn_.phase);
#ifdef STEP_TRACE
      ring_wait_ += clock64() - before;
#endif
#ifndef STEP_NO_PRODUCTS
#pragma unroll 2
      for (int pair = warp_; pair < pairs; pair += step_warps) {
#pragma unroll
        for (int s = 0; s < 2; ++s) {
          const int at = 8 * pair + 4 * (s ^ odd);
          const uint4 right = weight[at];
          uint4 left{0, 0, 0, 0};
          if (g < 2) {
            left = x[at];
          }
          const std::uint32_t low[4] = {left.x, 0, left.y, 0};
          const std::uint32_t high[4] = {left.z, 0, left.w, 0};
          multiply_add<element>(part[2 * s], low, right.x, right.y);
          multiply_add<element>(part[2 * s + 1], high, right.z, right.w);
        }
      }
#endif
      meet_warp();
      if (lane_ == 0) {
        arrive(memory_.empty + turn_.slot);
      }
      turn_.advance(plan_.slots);
    }
    // Even rows of the weight are columns of the sum's first row, odd ones of
    // its second row.
    if (g < 2) {
      sums[(2 * t + g) * sums_step + warp_] = odd != 0
          ? (part[0][1] + part[1][1]) + (part[2][1] + part[3][1])
          : (part[0][0] + part[1][0]) + (part[2][0] + part[3][0]);
    }
  }

  /// Adds up the sums of warps of a unit, four lanes for a row.
  __device__ void finish_unit(
      const Division& division,
      unsigned unit,
      const float* sums,
      float bias,
      Activation activation,
      bool adds,
      uint4* messages) {
    const int begin = division.begin(unit);
    const int rows = division.begin(unit + 1) - begin;
    const int own = lane_ / 4;
    const int from = lane_ % 4 * 4; // of the warps
    Lane some[4];
    load(sums, Element::fp32, own * sums_step + from, some);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (from + i >= step_warps) {
        some[i].value = 0;
      }
    }
    float sum =
        (some[0].value + some[1].value) + (some[2].value + some[3].value);
    sum += of_thread(sum, 1);
    sum += of_thread(sum, 2);
    sum = activated(sum + bias, activation);
    if (messages == nullptr) {
      if (own < rows && lane_ % 4 == 0) {
        x_.scores[begin + own] = sum;
      }
      return;
    }
    unsigned bits = number_;
    if (own < unit_rows) {
      if (adds && own < rows) {
        sum += from_bits(memory_.hidden[begin + own], element);
      }
      bits = to_bits(sum, element);
    }
    const unsigned next = __shfl_xor_sync(0xffffffffU, bits, 4);
    const unsigned two = bits | next << 16U;
    uint4 message;
    message.x = two;
    message.y = __shfl_xor_sync(0xffffffffU, two, 8);
    message.z = __shfl_xor_sync(0xffffffffU, two, 16);
    message.w = __shfl_xor_sync(0xffffffffU, message.y, 16);
    if (lane_ == 0) {
      send_message(messages + unit, message);
    }
  }

  /// What a softmax has so far: all exponents are less `top`.
  struct Weighed {
    float top = -INFINITY;
    float sum = 0;
  };
  static __device__ float correction(float top, float higher) {
    return power_of_two(top - (higher == -INFINITY ? 0 : higher));
  }

  /// The block's parts of attention: of a head, some of the text's keys.
  __device__ void attend(int layer) {
    const auto parts = static_cast<unsigned>(x_.shape.heads * plan_.splits);
    for (unsigned part = blockIdx.x; part < parts; part += gridDim.x) {
      attend_to_part(
          layer,
          static_cast<int>(part) / plan_.splits,
          static_cast<int>(part) % plan_.splits);
      if (part + gridDim.x < parts) {
        meet();
      }
    }
  }

  __device__ void attend_to_part(int layer, int head, int split) {
    constexpr int width = 8 * lanes;
    constexpr int slots = step_threads / lanes; ///< keys at a time
    constexpr int at_once = 2;
    const int size = x_.shape.head_size;
    const int length = position_ + 1;
    const int each = (length + plan_.splits - 1) / plan_.splits;
    const int begin = split * each;
    const int end = begin + each < length ? begin + each : length;
    const int slot = thread_ / lanes;
    const int lane = thread_ % lanes;
    const bool used = 8 * lane < size;
    const std::int64_t layer_at = layer * x_.layer_step;
    const std::int64_t head_at = head * x_.pages.head_step;

    // The token's own key is not in the pages yet.
    const auto fetch =
        [&](int first, std::int64_t at, uint4(&to)[at_once]) {
#pragma unroll
          for (int k = 0; k < at_once; ++k) {
            const int key = first + k * slots + slot;
            to[k] = uint4{0, 0, 0, 0};
            if (used && key < end && key != position_) {
              to[k] = *reinterpret_cast<const uint4*>(
                  static_cast<const std::uint16_t*>(x_.pages.data) +
                  place_in_pages(x_.pages, table_, key) + at + layer_at +
                  head_at + 8 * lane);
            }
          }
        };
    uint4 keys[at_once];
    uint4 values[at_once];
    fetch(begin, x_.pages.keys_at, keys);
    fetch(begin, x_.pages.values_at, values);

    // Query, key and value of the head.
    const Division& division = plan_.query_key_value;
    const int first_row = head * 3 * size;
    const int end_row = first_row + 3 * size;
    for (unsigned unit = division.unit_of(first_row) +
             static_cast<unsigned>(thread_);
         unit < division.units && division.begin(unit) < end_row;
         unit += step_threads) {
      const uint4* const from = messages_ + unit;
      const uint4 message = receive(from, look_at_message(from), number_);
      const int row = division.begin(unit);
      const int rows = division.begin(unit + 1) - row;
#pragma unroll
      for (int i = 0; i < unit_rows; ++i) {
        if (i < rows && row + i >= first_row && row + i < end_row) {
          memory_.head[row + i - first_row] = half_of(message, i);
        }
      }
    }
    meet();
    const bool has_own = begin <= position_ && position_ < end;
    if (has_own) {
      const std::int64_t place =
          place_in_pages(x_.pages, table_, position_) + layer_at + head_at;
      auto* const pages = static_cast<std::uint16_t*>(x_.pages.data);
      for (int i = thread_; i < 2 * size; i += step_threads) {
        const int at = i < size ? i : i - size;
        pages
            [place + (i < size ? x_.pages.keys_at : x_.pages.values_at) + at] =
                memory_.head[size + i];
      }
    }

    float query[8];
    float result[8];
    Weighed softmax;
    const auto own_piece = [&](int which) {
      return used ? *reinterpret_cast<const uint4*>(
                        memory_.head + which * size + 8 * lane)
                  : uint4{0, 0, 0, 0};
    };
    {
      const uint4 bits = own_piece(0);
      Lane numbers[8];
      load(&bits, element, 0, numbers);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        query[j] = numbers[j].value * x_.scale * log2_of_e;
        result[j] = 0;
      }
    }
    for (int first = begin; first < end; first += slots * at_once) {
      float scores[at_once];
#pragma unroll
      for (int k = 0; k < at_once; ++k) {
        const int key = first + k * slots + slot;
        if (key == position_) {
          keys[k] = own_piece(1);
          values[k] = own_piece(2);
        }
        Lane numbers[8];
        load(&keys[k], element, 0, numbers);
        float sum = 0;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          sum += query[j] * numbers[j].value;
        }
#pragma unroll
        for (int mask = lanes / 2; mask > 0; mask /= 2) {
          sum += of_thread(sum, mask);
        }
        scores[k] = key < end ? sum : -INFINITY;
      }
      float top = softmax.top;
#pragma unroll
      for (int k = 0; k < at_once; ++k) {
        top = fmaxf(top, scores[k]);
      }
      const float factor = correction(softmax.top, top);
      softmax.top = top;
      softmax.sum *= factor;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        result[j] *= factor;
      }
#pragma unroll
      for (int k = 0; k < at_once; ++k) {
        Lane numbers[8];
        load(&values[k], element, 0, numbers);
        const float weight = correction(scores[k], softmax.top);
        softmax.sum += weight;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          result[j] += weight * numbers[j].value;
        }
      }
      if (first + slots * at_once < end) {
        fetch(first + slots * at_once, x_.pages.keys_at, keys);
        fetch(first + slots * at_once, x_.pages.values_at, values);
      }
    }

    // The slots of a warp, then those of all warps.
#pragma unroll
    for (int mask = lanes; mask < warp_size; mask *= 2) {
      const float top = fmaxf(softmax.top, of_thread(softmax.top, mask));
      const float factor = correction(softmax.top, top);
      softmax.top = top;
      softmax.sum *= factor;
      softmax.sum += of_thread(softmax.sum, mask);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        result[j] *= factor;
        result[j] += of_thread(result[j], mask);
      }
    }
    constexpr int part_step = width + 4;
    if (lane_ < lanes) {
      float* const part = memory_.sums + warp_ * part_step;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        part[8 * lane + j] = result[j];
      }
      if (lane == 0) {
        part[width] = softmax.top;
        part[width + 1] = softmax.sum;
      }
    }
    meet();
    // Eight lanes make a message, of which five have a value.
    const int count = (size + part_values - 1) / part_values;
    for (int i = thread_ / 8; i < (count + 3) / 4 * 4; i += step_threads / 8) {
      const int own = thread_ % 8;
      const int at = i * part_values + own;
      Weighed all;
      float sum = 0;
      for (int k = 0; k < step_warps; ++k) {
        all.top = fmaxf(all.top, memory_.sums[k * part_step + width]);
      }
      const bool counts = own < part_values && at < size;
      for (int k = 0; k < step_warps; ++k) {
        const float* const part = memory_.sums + k * part_step;
        const float factor = correction(part[width], all.top);
        all.sum += part[width + 1] * factor;
        if (counts) {
          sum += part[at] * factor;
        }
      }
      const bool has_keys = begin < end;
      const unsigned bits = counts && has_keys
          ? to_bits(sum / all.sum, element)
          : 0;
      const float weight = has_keys ? all.top + log2f(all.sum) : -INFINITY;
      const unsigned two = bits | __shfl_xor_sync(0xffffffffU, bits, 1) << 16U;
      uint4 message;
      message.x = two;
      message.y = __shfl_xor_sync(0xffffffffU, two, 2);
      message.z = __float_as_uint(weight);
      message.w =
          (__shfl_xor_sync(0xffffffffU, bits, 4) & 0xffffU) | number_ << 16U;
      if (own == 0 && i < count) {
        send_message(
            messages_ + plan_.attended_at +
                (head * plan_.splits + split) * count + i,
            message);
      }
    }
  }

  /// Receives the parts of all heads, and writes their sums to x.
  __device__ void join_splits() {
    const int size = x_.shape.head_size;
    const int count = (size + part_values - 1) / part_values;
    for (int i = thread_; i < x_.shape.heads * count; i += step_threads) {
      const int head = i / count;
      const int part = i - head * count;
      const uint4* const from = messages_ + plan_.attended_at +
          head * plan_.splits * count + part;
      uint4 messages[most_splits];
#pragma unroll
      for (int s = 0; s < most_splits; ++s) {
        if (s < plan_.splits) {
          messages[s] = look_at_message(from + s * count);
        }
      }
      float top = -INFINITY;
#pragma unroll
      for (int s = 0; s < most_splits; ++s) {
        if (s < plan_.splits) {
          messages[s] = receive(from + s * count, messages[s], number_);
          top = fmaxf(top, __uint_as_float(messages[s].z));
        }
      }
      float sum = 0;
      float results[part_values] = {0, 0, 0, 0, 0};
#pragma unroll
      for (int s = 0; s < most_splits; ++s) {
        if (s < plan_.splits) {
          const float weight =
              correction(__uint_as_float(messages[s].z), top);
          sum += weight;
#pragma unroll
          for (int k = 0; k < part_values; ++k) {
            results[k] += weight *
                from_bits(half_of(messages[s], k < 4 ? k : 6), element);
          }
        }
      }
#pragma unroll
      for (int k = 0; k < part_values; ++k) {
        if (part * part_values + k < size) {
          x_halves()[head * size + part * part_values + k] =
              to_bits(results[k] / sum, element);
        }
      }
    }
    meet();
  }

  const TextStep& x_;
  const StepPlan& plan_;
  const Memory& memory_;
  int thread_;
  int lane_;
  int warp_;
  uint4* messages_;
  Turn turn_;
  int position_ = 0;
  const std::int32_t* table_ = nullptr;
  unsigned number_ = 0;
#ifdef STEP_TRACE
  int layer_ = 0;
  long long ring_wait_ = 0;
#endif
  float origin_ = 0; ///< near the mean of the residual stream
};

template <Element element, int lanes>
__global__ void __launch_bounds__(step_threads + warp_size)
    text_step_kernel(const TextStep x, const StepPlan plan) {
  uint4* const shared = shared_memory();
  auto* const full = reinterpret_cast<CopyBarrier*>(shared);
  const Memory memory{
      full,
      full + most_slots,
      shared + plan.x_at,
      reinterpret_cast<std::uint16_t*>(shared + plan.hidden_at),
      reinterpret_cast<std::uint16_t*>(shared + plan.head_at),
      reinterpret_cast<float*>(shared + plan.sums_at),
      shared + plan.ring_at};
  if (threadIdx.x == 0) {
    for (int i = 0; i < plan.slots; ++i) {
      make_barrier(memory.full + i, 1);
      make_barrier(memory.empty + i, step_warps);
    }
    publish_barriers();
  }
  __syncthreads();
  if (threadIdx.x >= step_threads) {
    Filler(x, plan, memory).fill();
  } else {
    Worker<element, lanes>(x, plan, memory).work();
  }
}

Division divided(int rows, int blocks, int slices) {
  Division division{};
  division.rows = static_cast<unsigned>(rows);
  division.each = static_cast<unsigned>(
      (rows + unit_rows * blocks - 1) / (unit_rows * blocks));
  division.units = division.each * static_cast<unsigned>(blocks);
  division.slices = slices;
  return division;
}

int pieces_for(std::int64_t bytes) {
  return static_cast<int>((bytes + 15) / 16);
}

/// The plan with slices of so many columns.
StepPlan plan_with(const TextStepShape& shape, int columns) {
  const int blocks = blocks_together();
  const int slices = shape.hidden / columns;
  StepPlan plan{};
  plan.columns = columns;
  plan.query_key_value =
      divided(3 * shape.heads * shape.head_size, blocks, slices);
  plan.dense = divided(shape.hidden, blocks, slices);
  plan.up = divided(shape.inner, blocks, slices);
  plan.down = divided(shape.hidden, blocks, shape.inner / columns);
  plan.head = divided(shape.outputs, blocks, slices);
  plan.splits = std::clamp(blocks / shape.heads, 1, most_splits);
  plan.slot_pieces = unit_rows * columns / 8;
  plan.x_at = pieces_for(barrier_bytes);
  plan.hidden_at = plan.x_at +
      pieces_for(std::int64_t{2} * std::max(shape.hidden, shape.inner));
  plan.head_at = plan.hidden_at + pieces_for(std::int64_t{2} * shape.hidden);
  plan.sums_at = plan.head_at + pieces_for(std::int64_t{6} * shape.head_size);
  const int attention_floats = step_warps * (most_head + 4);
  plan.ring_at = plan.sums_at +
      pieces_for(
          std::int64_t{4} * std::max(2 * sums_floats, attention_floats));
  plan.ring_at = (plan.ring_at + 7) / 8 * 8; // 128 bytes
  const auto pieces =
      static_cast<int>((most_shared_bytes() - shared_reserve) / 16) -
      plan.ring_at;
  plan.slots = std::clamp(pieces / plan.slot_pieces, 0, most_slots);

  const int parts = (shape.head_size + part_values - 1) / part_values;
  plan.attended_at = static_cast<int>(plan.query_key_value.units);
  plan.dense_at = plan.attended_at + shape.heads * plan.splits * parts;
  plan.up_at = plan.dense_at + static_cast<int>(plan.dense.units);
  plan.down_at = plan.up_at + static_cast<int>(plan.up.units);
  return plan;
}

/// The plan with the widest slices that leave enough slots, or with the most
/// slots. Without slots if there is not enough memory.
StepPlan plan_of(const TextStepShape& shape) {
  const int both = std::gcd(shape.hidden, shape.inner);
  StepPlan plan{};
  for (int columns = both / 64 * 64; columns > 0; columns -= 64) {
    if (both % columns == 0) {
      plan = plan_with(shape, columns);
      if (plan.slots >= enough_slots) {
        break;
      }
    }
  }
  return plan;
}

template <Element element, int lanes>
const char*
start_step(const TextStep& step, const StepPlan& plan, void* stream) {
  const auto kernel = text_step_kernel<element, lanes>;
  const std::size_t bytes = 16 *
      (static_cast<std::size_t>(plan.ring_at) +
       static_cast<std::size_t>(plan.slots) *
           static_cast<std::size_t>(plan.slot_pieces));
  cudaFuncSetAttribute(
      kernel,
      cudaFuncAttributeMaxDynamicSharedMemorySize,
      static_cast<int>(bytes));
  const Grid grid{
      static_cast<unsigned>(blocks_together()),
      step_threads + warp_size,
      bytes};
  return launch_together(kernel, grid, stream, step, plan);
}

} // namespace

bool takes(const TextStepShape& shape) {
  if (shape.element == Element::fp32 || shape.hidden % 64 != 0 ||
      shape.inner % 64 != 0 || shape.head_size % 8 != 0 ||
      shape.head_size > most_head ||
      shape.heads * shape.head_size != shape.hidden || shape.layers < 1 ||
      !is_for_hopper(text_step_kernel<Element::bf16, 8>)) {
    return false;
  }
  const StepPlan plan = plan_of(shape);
  const auto numbered = [](const Division& division) {
    return static_cast<std::uint64_t>(division.rows) * (division.units + 1) <
        std::uint64_t{1} << 32U;
  };
  return plan.slots >= least_slots && numbered(plan.query_key_value) &&
      numbered(plan.up) && numbered(plan.head);
}

std::size_t text_step_message_bytes(const TextStepShape& shape) {
  const StepPlan plan = plan_of(shape);
  return 16 * (static_cast<std::size_t>(plan.down_at) + plan.down.units);
}

const char* run_step(const TextStep& step, void* stream) {
  const StepPlan plan = plan_of(step.shape);
#ifdef STEP_ONLY
  return start_step<Element::bf16, 8>(step, plan, stream);
#else
  const auto with_lanes = [&](auto element) {
    return step.shape.head_size <= 64
        ? start_step<element(), 8>(step, plan, stream)
        : start_step<element(), 16>(step, plan, stream);
  };
  return step.shape.element == Element::bf16
      ? with_lanes(std::integral_constant<Element, Element::bf16>())
      : with_lanes(std::integral_constant<Element, Element::fp16>());
#endif
}

} // namespace cairn::kernels::cuda
