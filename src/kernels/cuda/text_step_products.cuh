#pragma once

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/few_rows.cuh"
#include "kernels/cuda/tensor_core.cuh"
#include "kernels/cuda/text_step_norms.cuh"
#include "kernels/cuda/text_step_ring.cuh"

#include <cstdint>

namespace cairn::kernels::cuda {

/// The products of text_step.cu, with weights from the ring.
template <Element element>
class StepProducts : protected StepNorms<element> {
 public:
  using StepNorms<element>::StepNorms;

 protected:
  using StepThread::lane_;
  using StepThread::meet;
  using StepThread::memory_;
  using StepThread::messages_;
  using StepThread::own_number;
  using StepThread::plan_;
  using StepThread::thread_;
  using StepThread::warp_;
  using StepThread::x_;
  using StepThread::x_halves;

  /// Reads the bias of this lane's first result of the product that is next.
  __device__ void read_bias(const Division& division, const void* bias) {
    bias_ = bias_bits(
        division,
        blockIdx.x * division.each + static_cast<unsigned>(warp_),
        bias);
  }

  __device__ std::uint16_t bias_bits(
      const Division& division,
      unsigned unit,
      const void* bias) {
    const int row = division.begin(unit) + lane_ / 4;
    return bias != nullptr && unit < division.units &&
            row < division.begin(unit + 1)
        ? static_cast<const std::uint16_t*>(bias)[row]
        : std::uint16_t{0};
  }

  /// Receives what the last product of a layer multiplies.
  __device__ void receive_inner() {
    const Division& division = memory_.products[up];
    const uint4* const messages = messages_ + division.messages_at;
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
          const uint4 message =
              receive(messages + unit, early[k], own_number());
          write_values(message, x_halves(), begin, rows, place_in_x);
        }
      }
    }
    meet();
  }

  /// Multiplies the block's rows of a weight by x. The results go to messages,
  /// or to the scores. The bias of the next product is read meanwhile.
  __device__ void multiply(int product, const void* next_bias, int next) {
    const Division& division = memory_.products[product];
    const std::uint16_t bias = bias_;
    if (product != head) {
      read_bias(memory_.products[next], next_bias);
    }
    const unsigned first = blockIdx.x * division.each;
    const Role role = division.roles[warp_];
#pragma unroll 1
    for (unsigned c = 0; c < division.each; c += division.group) {
      const unsigned count = division.each - c < division.group
          ? division.each - c
          : division.group;
      if (static_cast<unsigned>(role.unit) < count) {
        multiply_unit(
            division,
            role,
            chunk_ +
                (c + static_cast<unsigned>(role.unit)) *
                    static_cast<unsigned>(division.slices) +
                static_cast<unsigned>(role.slice));
      }
      meet();
      if (static_cast<unsigned>(warp_) < count) {
        const unsigned unit = first + c + static_cast<unsigned>(warp_);
        finish_unit(
            product,
            unit,
            memory_.sums + warp_ * 8 * sums_step,
            c == 0 ? bias : late_bias(product, unit));
      }
      if (c + count < division.each) {
        meet(); // the sums' memory is used again
      }
    }
    chunk_ += division.each * static_cast<unsigned>(division.slices);
  }

  /// The bias of results behind the first of a lane.
  __device__ std::uint16_t late_bias(int product, unsigned unit) {
    const bool is_head = product == head;
    return bias_bits(
        memory_.products[product],
        unit,
        memory_.layers[is_head ? x_.shape.layers : layer_of_number_]
            .products[is_head ? 0 : product]
            .bias);
  }

  /// The sums of this warp's columns of a unit; `chunk` is the first slice of
  /// it. Lane 4 g + t reads pieces of row g of the weight. Odd rows take the
  /// two halves of 64 columns in the other order, so that rows, which lie a
  /// multiple of 128 bytes apart, are read from different banks at a time. The
  /// tensor cores' first factor has x: rows 0 and 1 its first two words of each
  /// piece, in either order of halves, rows 8 and 9 the last two. Its other
  /// rows, and sums of first words with last ones, are not used.
  __device__ void multiply_unit(
      const Division& division,
      const Role& role,
      unsigned chunk) {
    const int g = lane_ / 4;
    const int t = lane_ % 4;
    const int row = g < unit_rows ? g : unit_rows - 1;
    const int odd = g & 1;
    const int pieces = plan_.columns / 8;
    const int sharers = division.sharers;
    const int step = 8 * sharers;
    // The sums of the two halves, each of its first and last words.
    float part[2][2][4];
#pragma unroll
    for (int s = 0; s < 2; ++s) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        part[s][0][k] = 0;
        part[s][1][k] = 0;
      }
    }
    // Lanes that have no row of x leave these as they are: what they add to the
    // sums is not read.
    uint4 numbers[at_a_time][2];
#pragma unroll
    for (int i = 0; i < at_a_time; ++i) {
      numbers[i][0] = uint4{0, 0, 0, 0};
      numbers[i][1] = uint4{0, 0, 0, 0};
    }
    const int other = 4 - 8 * odd; // to the other half
    const bool has_x = g < 2;
    const uint4* weight = nullptr;
    const uint4* x = nullptr;
    const auto multiply_some = [&](auto count) {
      uint4 weights[count()][2];
#pragma unroll
      for (int i = 0; i < count(); ++i) {
        read_now(weights[i][0], weight, true);
        read_now(weights[i][1], weight + other, true);
        read_now(numbers[i][0], x, has_x);
        read_now(numbers[i][1], x + other, has_x);
        weight += step;
        x += step;
      }
#pragma unroll
      for (int i = 0; i < count(); ++i) {
#pragma unroll
        for (int s = 0; s < 2; ++s) {
          const uint4 right = weights[i][s];
          const std::uint32_t words[4] = {
              numbers[i][s].x,
              numbers[i][s].y,
              numbers[i][s].z,
              numbers[i][s].w};
          multiply_add<element>(part[s][0], words, right.x, right.y);
          multiply_add<element>(part[s][1], words, right.z, right.w);
        }
      }
    };
    // Sharers take stretches of 64 columns in turn, across the slices as well.
    int first = role.sharer;
#pragma unroll 1
    for (int slice = 0; slice < division.warp_slices; ++slice, ++chunk) {
      const auto use = static_cast<unsigned>(
          static_cast<std::uint64_t>(chunk) * plan_.slot_share >> 32U);
      const unsigned slot = chunk - use * static_cast<unsigned>(plan_.slots);
      const int begin = t + 8 * first + 4 * odd;
      weight = memory_.ring + static_cast<int>(slot) * plan_.slot_pieces +
          row * pieces + begin;
      x = memory_.x + (role.slice + slice) * pieces + begin;
      int left = (pieces / 8 - first + sharers - 1) / sharers;
      first += left * sharers - pieces / 8;
      wait_for_phase(memory_.full + slot, use);
#pragma unroll 1
      for (; left >= at_a_time; left -= at_a_time) {
        multiply_some(std::integral_constant<int, at_a_time>());
      }
#pragma unroll 1
      for (; left > 0; --left) {
        multiply_some(std::integral_constant<int, 1>());
      }
      meet_warp();
      if (lane_ == 0) {
        arrive_times(
            memory_.empty + slot,
            slot_arrivals / static_cast<unsigned>(sharers));
      }
    }
    // Even rows of the weight are columns of the sums' first rows, odd ones of
    // their second rows.
    if (g < 2) {
      float sum = 0;
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        sum += odd != 0 ? part[s][0][1] + part[s][1][3]
                        : part[s][0][0] + part[s][1][2];
      }
      memory_.sums
          [(role.unit * 8 + 2 * t + g) * sums_step + role.slice * sharers +
           role.sharer] = sum; // a warp with all slices begins with the first
    }
  }

  /// Adds up the parts of a unit's sums, four lanes for a row.
  __device__ void finish_unit(
      int product,
      unsigned unit,
      const float* sums,
      std::uint16_t bias) {
    const Division& division = memory_.products[product];
    const int begin = division.begin(unit);
    const int rows = division.begin(unit + 1) - begin;
    const int own = lane_ / 4;
    const int from = lane_ % 4 * 4; // of the warps
    Lane some[4];
    load(sums, Element::fp32, own * sums_step + from, some);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (from + i >= division.parts) {
        some[i].value = 0;
      }
    }
    float sum =
        (some[0].value + some[1].value) + (some[2].value + some[3].value);
    sum += of_thread(sum, 1);
    sum += of_thread(sum, 2);
    sum += from_bits(bias, element);
    if (product == head) {
      if (own < rows && lane_ % 4 == 0) {
        x_.scores[begin + own] = sum;
      }
      return;
    }
    if (product == up) {
      sum = activated(sum, x_.activation);
    } else if (product != query_key_value && own < rows) {
      sum += from_bits(memory_.hidden[begin + own], element);
    }
    const unsigned bits =
        own < unit_rows ? to_bits(sum, element) : own_number();
    const unsigned next = __shfl_xor_sync(0xffffffffU, bits, 4);
    const unsigned two = bits | next << 16U;
    uint4 message;
    message.x = two;
    message.y = __shfl_xor_sync(0xffffffffU, two, 8);
    message.z = __shfl_xor_sync(0xffffffffU, two, 16);
    message.w = __shfl_xor_sync(0xffffffffU, message.y, 16);
    if (lane_ == 0) {
      send_message(messages_ + division.messages_at + unit, message);
    }
  }

  int layer_of_number_ = -1;

 private:
  unsigned chunk_ = 0;     ///< slices of units that were multiplied so far
  std::uint16_t bias_ = 0; ///< of the next product
};

} // namespace cairn::kernels::cuda
