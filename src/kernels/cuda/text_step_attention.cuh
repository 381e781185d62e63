#pragma once

#include "kernels/cuda/fast_math.cuh"
#include "kernels/cuda/few_rows.cuh"
#include "kernels/cuda/kept_pages.cuh"
#include "kernels/cuda/text_step_products.cuh"

#include <cmath>
#include <cstdint>

namespace cairn::kernels::cuda {

/// The attention of text_step.cu: a block has some keys of a head, and every
/// block joins the parts of all heads. A key is read by `lanes` lanes.
template <Element element, int lanes>
class StepAttention : protected StepProducts<element> {
 public:
  using StepProducts<element>::StepProducts;

 protected:
  using StepThread::lane_;
  using StepThread::meet;
  using StepThread::memory_;
  using StepThread::messages_;
  using StepThread::own_number;
  using StepThread::plan_;
  using StepThread::position_;
  using StepThread::thread_;
  using StepThread::warp_;
  using StepThread::x_;
  using StepThread::x_halves;

  /// Divides the text's keys.
  __device__ void divide_keys() {
    table_ = x_.pages.table +
        static_cast<std::int64_t>(x_.row.places[0]) * x_.pages.width;
    const int length = position_ + 1;
    constexpr int keys_at_once = slots * at_once;
    splits_ = (length + keys_at_once - 1) / keys_at_once;
    splits_ = splits_ < plan_.splits ? splits_ : plan_.splits;
    split_keys_ = (length + splits_ - 1) / splits_;
  }

  /// Factor for what was added up with exponents less `top` when these become
  /// less `higher`.
  static __device__ float correction(float top, float higher) {
    return power_of_two(top - (higher == -INFINITY ? 0 : higher));
  }

  /// The block's parts of attention: of a head, some of the text's keys. Short
  /// texts are not divided, and the parts that are left over are empty; they
  /// are sent all the same, so that no message is older than the last layer's.
  __device__ void attend(int layer) {
    const auto parts = static_cast<unsigned>(x_.shape.heads * plan_.splits);
#pragma unroll 1
    for (unsigned part = blockIdx.x; part < parts; part += gridDim.x) {
      const int head = static_cast<int>(part) / plan_.splits;
      const int split = static_cast<int>(part) - head * plan_.splits;
      if (split >= splits_) {
        if (thread_ < plan_.head_messages) {
          send_message(
              attended_message(head, split, thread_),
              uint4{0, 0, 0, own_number() << 16U});
        }
        continue;
      }
      const Keys keys = keys_of(layer, head, split);
      if (part != blockIdx.x) {
        meet(); // the memory of the last part is used again
      }
      fetch_keys(keys, keys.begin);
      receive_head(head);
      attend_to(keys);
      send_part(head, split, keys.begin < keys.end);
      if (keys.begin <= position_ && position_ < keys.end) {
        keep(keys);
      }
    }
  }

  __device__ uint4* attended_message(int head, int split, int i) {
    return messages_ + plan_.attended_at +
        (head * plan_.splits + split) * plan_.head_messages + i;
  }

  /// The keys of a part of attention that this thread reads: from a first one
  /// on every `slots`, `at_once` together.
  struct Keys {
    int begin;
    int end;
    int slot;
    int lane;
    bool used;
    std::int64_t at; ///< of the head in a page
  };
  static constexpr int slots = step_threads / lanes;
  static constexpr int at_once = 2;
  /// Floats of a warp's part, and from one to the next.
  static constexpr int part_width = 8 * lanes;
  static constexpr int part_step = part_width + 4;

  __device__ Keys keys_of(int layer, int head, int split) {
    const int length = position_ + 1;
    const int begin = split * split_keys_;
    const int lane = thread_ % lanes;
    return {
        begin,
        begin + split_keys_ < length ? begin + split_keys_ : length,
        thread_ / lanes,
        lane,
        8 * lane < x_.shape.head_size,
        layer * x_.layer_step + head * x_.pages.head_step + 8 * lane};
  }

  /// Reads keys and values from `first` on. The token's own are not in the
  /// pages yet.
  __device__ void fetch_keys(const Keys& keys, int first) {
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      const int key = first + k * slots + keys.slot;
      keys_[k] = uint4{0, 0, 0, 0};
      values_[k] = uint4{0, 0, 0, 0};
      if (keys.used && key < keys.end && key != position_) {
        const auto* const place =
            static_cast<const std::uint16_t*>(x_.pages.data) +
            place_in_pages(x_.pages, table_, key) + keys.at;
        keys_[k] = *reinterpret_cast<const uint4*>(place + x_.pages.keys_at);
        values_[k] =
            *reinterpret_cast<const uint4*>(place + x_.pages.values_at);
      }
    }
  }

  /// Brings the keys and values of the block's first part of attention to the
  /// GPU's cache: they do not depend on this token.
  __device__ void ask_for_keys(int layer) {
    const int part = static_cast<int>(blockIdx.x);
    const int head = part / plan_.splits;
    const int split = part - head * plan_.splits;
    if (head >= x_.shape.heads || split >= splits_) {
      return;
    }
    // Two threads have the two lines that a long head may take.
    const Keys keys = keys_of(layer, head, split);
    const std::int64_t line = keys.at - 8 * keys.lane + thread_ % 2 * 64;
    if (thread_ % 2 != 0 && x_.shape.head_size <= 64) {
      return;
    }
    for (int key = keys.begin + thread_ / 2; key < keys.end;
         key += step_threads / 2) {
      if (key != position_) {
        const auto* const place =
            static_cast<const std::uint16_t*>(x_.pages.data) +
            place_in_pages(x_.pages, table_, key) + line;
        fetch_line(place + x_.pages.keys_at);
        fetch_line(place + x_.pages.values_at);
      }
    }
  }

  /// Receives query, key and value of a head.
  __device__ void receive_head(int head) {
    const int size = x_.shape.head_size;
    const Division& division = memory_.products[query_key_value];
    const int first_row = head * 3 * size;
    const int end_row = first_row + 3 * size;
    for (unsigned unit = static_cast<unsigned>(head) * division.units /
                 static_cast<unsigned>(x_.shape.heads) +
             static_cast<unsigned>(thread_);
         unit < division.units && division.begin(unit) < end_row;
         unit += step_threads) {
      const uint4* const from = messages_ + unit;
      const uint4 message = receive(from, look_at_message(from), own_number());
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
  }

  /// Attention of the head's query to some keys: a part for each warp.
  __device__ void attend_to(const Keys& keys) {
    const int size = x_.shape.head_size;
    float* const part = memory_.sums + warp_ * part_step;
    if (keys.begin + warp_ * (warp_size / lanes) >= keys.end) {
      if (lane_ == 0) {
        part[part_width] = -INFINITY;
      }
      return;
    }
    const auto own_piece = [&](int which) {
      return keys.used ? *reinterpret_cast<const uint4*>(
                             memory_.head + which * size + 8 * keys.lane)
                       : uint4{0, 0, 0, 0};
    };
    Lane query[8];
    Lane result[8];
    {
      const uint4 bits = own_piece(0);
      load(&bits, element, 0, query);
      const float scale = x_.scale * log2_of_e;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        query[j].value *= scale;
        result[j].value = 0;
      }
    }
    float top = -INFINITY;
    float sum = 0;
#pragma unroll 1
    for (int first = keys.begin; first < keys.end; first += slots * at_once) {
      float scores[at_once];
      float higher = top;
#pragma unroll
      for (int k = 0; k < at_once; ++k) {
        const int key = first + k * slots + keys.slot;
        if (key == position_) {
          keys_[k] = own_piece(1);
          values_[k] = own_piece(2);
        }
        Lane numbers[8];
        load(&keys_[k], element, 0, numbers);
        float score = 0;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          score += query[j].value * numbers[j].value;
        }
#pragma unroll
        for (int mask = lanes / 2; mask > 0; mask /= 2) {
          score += of_thread(score, mask);
        }
        scores[k] = key < keys.end ? score : -INFINITY;
        higher = fmaxf(higher, scores[k]);
      }
      const float factor = correction(top, higher);
      top = higher;
      sum *= factor;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        result[j].value *= factor;
      }
#pragma unroll
      for (int k = 0; k < at_once; ++k) {
        Lane numbers[8];
        load(&values_[k], element, 0, numbers);
        const float weight = correction(scores[k], top);
        sum += weight;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          result[j].value += weight * numbers[j].value;
        }
      }
      if (first + slots * at_once < keys.end) {
        fetch_keys(keys, first + slots * at_once);
      }
    }

    // All keys of the warp together.
    float highest = top;
#pragma unroll
    for (int mask = lanes; mask < warp_size; mask *= 2) {
      highest = fmaxf(highest, of_thread(highest, mask));
    }
    const float factor = correction(top, highest);
    sum *= factor;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      result[j].value *= factor;
    }
#pragma unroll
    for (int mask = lanes; mask < warp_size; mask *= 2) {
      sum += of_thread(sum, mask);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        result[j].value += of_thread(result[j].value, mask);
      }
    }
    if (lane_ < lanes) {
      store(result, part, Element::fp32, 8 * keys.lane);
      if (lane_ == 0) {
        part[part_width] = highest;
        part[part_width + 1] = sum;
      }
    }
  }

  /// Adds up the parts of warps and sends them.
  __device__ void send_part(int head, int split, bool has_keys) {
    meet();
    // Sixteen lanes make a message: each has a warp's part.
    const int size = x_.shape.head_size;
    for (int first = warp_ * 2; first < plan_.head_messages;
         first += 2 * step_warps) {
      const int i = first + lane_ / 16;
      const int from = lane_ % 16;
      const float* const part =
          memory_.sums + (from < step_warps ? from : 0) * part_step;
      const float top = from < step_warps ? part[part_width] : -INFINITY;
      const bool counts = !(top == -INFINITY); // what is not a number stays
      float highest = top;
#pragma unroll
      for (int mask = 8; mask > 0; mask /= 2) {
        highest = fmaxf(highest, of_thread(highest, mask));
      }
      const float factor = correction(top, highest);
      float all[part_values + 1];
#pragma unroll
      for (int k = 0; k < part_values; ++k) {
        const int at = i * part_values + k;
        all[k] = counts && at < size ? part[at] * factor : 0;
      }
      all[part_values] = counts ? part[part_width + 1] * factor : 0;
#pragma unroll
      for (int mask = 8; mask > 0; mask /= 2) {
#pragma unroll
        for (int k = 0; k <= part_values; ++k) {
          all[k] += of_thread(all[k], mask);
        }
      }
      if (from == 0 && i < plan_.head_messages) {
        const float sum = all[part_values];
        const float whole = has_keys ? reciprocal(sum) : 0;
        uint4 message;
        message.x = to_bit_pair(all[0] * whole, all[1] * whole, element);
        message.y = to_bit_pair(all[2] * whole, all[3] * whole, element);
        message.z =
            __float_as_uint(has_keys ? highest + log2f(sum) : -INFINITY);
        message.w = to_bits(all[4] * whole, element) | own_number() << 16U;
        send_message(attended_message(head, split, i), message);
      }
    }
  }

  /// Writes the token's own key and value to the pages.
  __device__ void keep(const Keys& keys) {
    const int size = x_.shape.head_size;
    const std::int64_t place =
        place_in_pages(x_.pages, table_, position_) + keys.at - 8 * keys.lane;
    auto* const pages = static_cast<std::uint16_t*>(x_.pages.data);
    for (int i = thread_; i < 2 * size; i += step_threads) {
      const int at = i < size ? i : i - size;
      pages[place + (i < size ? x_.pages.keys_at : x_.pages.values_at) + at] =
          memory_.head[size + i];
    }
  }

  /// Receives the parts of all heads, and writes their sums to x.
  __device__ void join_splits() {
    const int size = x_.shape.head_size;
    const int count = plan_.head_messages;
    for (int i = thread_; i < x_.shape.heads * count; i += step_threads) {
      const int head = i / count;
      const int part = i - head * count;
      const uint4* const from = attended_message(head, 0, part);
      uint4 messages[most_splits];
#pragma unroll
      for (int s = 0; s < most_splits; ++s) {
        if (s < splits_) {
          messages[s] = look_at_message(from + s * count);
        }
      }
      float top = -INFINITY;
#pragma unroll
      for (int s = 0; s < most_splits; ++s) {
        if (s < splits_) {
          messages[s] = receive(from + s * count, messages[s], own_number());
          top = fmaxf(top, __uint_as_float(messages[s].z));
        }
      }
      float sum = 0;
      float results[part_values] = {0, 0, 0, 0, 0};
#pragma unroll
      for (int s = 0; s < most_splits; ++s) {
        if (s < splits_) {
          const float weight = correction(__uint_as_float(messages[s].z), top);
          sum += weight;
#pragma unroll
          for (int k = 0; k < part_values; ++k) {
            results[k] += weight *
                from_bits(half_of(messages[s], k < 4 ? k : 6), element);
          }
        }
      }
      const float whole = reciprocal(sum);
#pragma unroll
      for (int k = 0; k < part_values; ++k) {
        if (part * part_values + k < size) {
          x_halves()[place_in_x(head * size + part * part_values + k)] =
              to_bits(results[k] * whole, element);
        }
      }
    }
    meet();
  }

 private:
  int splits_ = 1;     ///< of the text's keys that are not empty
  int split_keys_ = 1; ///< in each
  const std::int32_t* table_ = nullptr;
  uint4 keys_[at_once];
  uint4 values_[at_once];
};

} // namespace cairn::kernels::cuda
