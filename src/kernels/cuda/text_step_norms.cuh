#pragma once

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/text_step_thread.cuh"

#include <cstdint>

namespace cairn::kernels::cuda {

/// The residual stream of text_step.cu, of which every block has all, and its
/// norms.
template <Element element>
class StepNorms : protected StepThread {
 public:
  using StepThread::StepThread;

 protected:
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

  /// Four values of gamma and beta, as they are in memory.
  struct Scales {
    uint2 gamma{0, 0};
    uint2 beta{0, 0};
  };
  __device__ Scales scales_at(const TextStepNorm& norm, int i) {
    const auto four = [&](const void* from) {
      return *reinterpret_cast<const uint2*>(
          static_cast<const std::uint16_t*>(from) + i);
    };
    return {
        four(norm.gamma),
        norm.beta != nullptr ? four(norm.beta) : uint2{0, 0}};
  }

  /// Reads this thread's first values for the norm that is next. Parameters are
  /// read once for each token, so they come from memory, and are asked for long
  /// before they are used.
  __device__ void read_scales(const TextStepNorm& norm) {
    if (thread_ * 4 < x_.shape.hidden) {
      scales_ = scales_at(norm, thread_ * 4);
    }
  }

  __device__ void add_distance(Pair& sums, float value) {
    const float distance = value - origin_;
    sums.first += distance;
    sums.second += distance * distance;
  }

  /// Receives the residual stream from a product, unless it is that of the
  /// embedding, and writes its norm to x.
  __device__ void normalize(
      const TextStepNorm& norm,
      const TextStepNorm* next,
      int from) {
    Pair sums{0, 0};
    if (from == product_count) {
      origin_ = from_bits(memory_.hidden[0], element);
      for (int i = thread_; i < x_.shape.hidden; i += step_threads) {
        add_distance(sums, from_bits(memory_.hidden[i], element));
      }
    } else {
      const Division& division = memory_.products[from];
      const uint4* const messages = messages_ + division.messages_at;
      for (auto unit = static_cast<unsigned>(thread_); unit < division.units;
           unit += step_threads) {
        const uint4 early = look_at_message(messages + unit);
        const int begin = division.begin(unit);
        const int rows = division.begin(unit + 1) - begin;
        const uint4 message = receive(messages + unit, early, own_number());
        write_values(message, memory_.hidden, begin, rows, [](int i) {
          return i;
        });
#pragma unroll
        for (int i = 0; i < unit_rows; ++i) {
          if (i < rows) {
            add_distance(sums, from_bits(half_of(message, i), element));
          }
        }
      }
    }
    sums = over_warp(sums, Add());
    auto* const of_warps = reinterpret_cast<Pair*>(memory_.norm_sums);
    if (lane_ == 0) {
      of_warps[warp_] = sums;
    }
    meet();
    sums = lane_ < step_warps ? of_warps[lane_] : Pair{0, 0};
    sums = over_warp(sums, Add());
    const float columns = 1 / static_cast<float>(x_.shape.hidden);
    const float shift = sums.first * columns;
    const float spread = sums.second * columns - shift * shift;
    const float variance = spread < 0 ? 0 : spread; // NaN stays
    const float mean = origin_ + shift;
    const float inverse = rsqrtf(variance + x_.epsilon);
    for (int i = thread_ * 4; i < x_.shape.hidden; i += step_threads * 4) {
      const Scales scales = i < step_threads * 4 ? scales_ : scales_at(norm, i);
      Lane gamma[4];
      Lane beta[4];
      Lane values[4];
      load(&scales.gamma, element, 0, gamma);
      load(&scales.beta, element, 0, beta);
      load(memory_.hidden, element, i, values);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        values[k].value =
            (values[k].value - mean) * inverse * gamma[k].value + beta[k].value;
      }
#pragma unroll
      for (int k = 0; k < 4; k += 2) {
        *reinterpret_cast<std::uint32_t*>(x_halves() + place_in_x(i + k)) =
            to_bit_pair(values[k].value, values[k + 1].value, element);
      }
    }
    origin_ = mean; // the next mean is not far from it
    meet();
    if (next != nullptr) {
      read_scales(*next);
    }
  }

 private:
  Scales scales_;    ///< of the next norm
  float origin_ = 0; ///< near the mean of the residual stream
};

} // namespace cairn::kernels::cuda
