#include "kernels/internal/cuda/text_step.h"

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/fast_math.cuh"
#include "kernels/cuda/few_rows.cuh"
#include "kernels/cuda/kept_pages.cuh"
#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/tensor_core.cuh"
#include "kernels/cuda/text_step_messages.cuh"
#include "kernels/cuda/text_step_plan.cuh"
#include "kernels/cuda/text_step_ring.cuh"

#include <algorithm>
#include <cmath>
#include <cstddef>

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
    const int length = position_ + 1;
    constexpr int keys_at_once = slots * at_once;
    splits_ = (length + keys_at_once - 1) / keys_at_once;
    splits_ = splits_ < plan_.splits ? splits_ : plan_.splits;
    split_keys_ = (length + splits_ - 1) / splits_;
    number_ = static_cast<unsigned>(
        x_.number * static_cast<std::uint64_t>(x_.shape.layers));
    read_scales(memory_.layers[0].norms[0]);
    read_bias(memory_.products[0], memory_.layers[0].products[0].bias);
    embed();
    // One loop over all products, so that there is little code: instructions
    // come through a small cache.
    int layer = 0;
    int product = query_key_value;
#pragma unroll 1
    while (true) {
      const bool is_last = layer == x_.shape.layers;
      if (product == query_key_value || product == up) {
        if (product == query_key_value && !is_last) {
          ask_for_keys(layer);
        }
        const bool is_inner = product == up;
        normalize(
            memory_.layers[layer].norms[is_inner ? 1 : 0],
            is_last        ? nullptr
                : is_inner ? memory_.layers[layer + 1].norms
                           : memory_.layers[layer].norms + 1,
            is_inner         ? dense
                : layer == 0 ? product_count
                             : down);
        if (!is_inner && !is_last) {
          ++number_;
          layer_of_number_ = layer;
        }
      } else if (product == dense) {
        attend(layer);
        join_splits();
      } else {
        receive_inner();
      }
      const bool is_end = product == down;
      const int next = is_end ? query_key_value : product + 1;
      const int next_layer = is_end ? layer + 1 : layer;
      multiply(
          is_last ? static_cast<int>(head) : product,
          is_last ? nullptr : memory_.layers[next_layer].products[next].bias,
          next_layer == x_.shape.layers ? static_cast<int>(head) : next);
      if (is_last) {
        return;
      }
      product = next;
      layer = next_layer;
    }
  }

 private:
  __device__ void meet() {
    meet_first(step_threads);
  }

  /// The number of the messages of this layer.
  __device__ unsigned own_number() const {
    return number_ & 0xffffU;
  }

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
        multiply_slice(
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

  /// The sums of this warp's columns of a slice of a unit. Lane 4 g + t reads
  /// pieces of row g of the weight. Odd rows take the two halves of 64 columns
  /// in the other order, so that rows, which lie a multiple of 128 bytes apart,
  /// are read from different banks at a time. The tensor cores' first factor
  /// has x: rows 0 and 1 its first two words of each piece, in either order of
  /// halves, rows 8 and 9 the last two. Its other rows, and sums of first words
  /// with last ones, are not used.
  __device__ void multiply_slice(
      const Division& division,
      const Role& role,
      unsigned chunk) {
    const auto use = static_cast<unsigned>(
        static_cast<std::uint64_t>(chunk) * plan_.slot_share >> 32U);
    const unsigned slot = chunk - use * static_cast<unsigned>(plan_.slots);
    const int g = lane_ / 4;
    const int t = lane_ % 4;
    const int row = g < unit_rows ? g : unit_rows - 1;
    const int odd = g & 1;
    const int pieces = plan_.columns / 8;
    const uint4* weight = memory_.ring +
        static_cast<int>(slot) * plan_.slot_pieces + row * pieces + t +
        8 * role.sharer;
    const uint4* x = memory_.x + role.slice * pieces + t + 8 * role.sharer;
    const int sharers = division.sharers;
    const int step = 8 * sharers;
    int left = (pieces / 8 - role.sharer + sharers - 1) / sharers;
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
    weight += 4 * odd;
    x += 4 * odd;
    const int other = 4 - 8 * odd; // to the other half
    const bool has_x = g < 2;
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
          slot_arrivals / static_cast<unsigned>(division.sharers));
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
           role.sharer] = sum;
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
      if (from + i >= division.slices * division.sharers) {
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

  const TextStep& x_;
  const StepPlan& plan_;
  const Memory& memory_;
  int thread_;
  int lane_;
  int warp_;
  uint4* messages_;
  Turn turn_;
  int position_ = 0;
  int splits_ = 1;     ///< of the text's keys that are not empty
  int split_keys_ = 1; ///< in each
  const std::int32_t* table_ = nullptr;
  unsigned chunk_ = 0; ///< slices of units that were multiplied so far
  unsigned number_ = 0;
  int layer_of_number_ = -1;
  Scales scales_;          ///< of the next norm
  std::uint16_t bias_ = 0; ///< of the next product
  uint4 keys_[at_once];
  uint4 values_[at_once];
  float origin_ = 0; ///< near the mean of the residual stream
};

template <Element element, int lanes>
__global__ void __launch_bounds__(step_threads + warp_size) text_step_kernel(
    const __grid_constant__ TextStep x,
    const __grid_constant__ StepPlan plan) {
  uint4* const shared = shared_memory();
  auto* const full = reinterpret_cast<CopyBarrier*>(shared);
  const Memory memory{
      full,
      full + most_slots,
      reinterpret_cast<const TextStepLayer*>(shared + plan.layers_at),
      reinterpret_cast<const Division*>(shared + plan.products_at),
      shared + plan.x_at,
      reinterpret_cast<std::uint16_t*>(shared + plan.hidden_at),
      reinterpret_cast<std::uint16_t*>(shared + plan.head_at),
      reinterpret_cast<float*>(shared + plan.norm_sums_at),
      reinterpret_cast<float*>(shared + plan.sums_at),
      shared + plan.ring_at};
  if (threadIdx.x == 0) {
    for (int i = 0; i < plan.slots; ++i) {
      make_barrier(memory.full + i, 1);
      make_barrier(memory.empty + i, slot_arrivals);
    }
    publish_barriers();
  }
  constexpr int layer_pieces = sizeof(TextStepLayer) / sizeof(uint4);
  for (int i = static_cast<int>(threadIdx.x);
       i < (x.shape.layers + 1) * layer_pieces;
       i += static_cast<int>(blockDim.x)) {
    shared[plan.layers_at + i] = reinterpret_cast<const uint4*>(x.layers)[i];
  }
  if (threadIdx.x < product_count) {
    reinterpret_cast<Division*>(shared + plan.products_at)[threadIdx.x] =
        plan.products[threadIdx.x];
  }
  __syncthreads();
  if (threadIdx.x >= step_threads) {
    fill_ring(x, plan, memory);
  } else {
    Worker<element, lanes>(x, plan, memory).work();
  }
}

template <Element element, int lanes>
const char* start_step(
    const TextStep& step,
    const StepPlan& plan,
    void* stream) {
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
  const int together = std::min(plan.slots, step_warps);
  return together >= least_slots && plan.products[up].slices <= together &&
      plan.products[down].slices <= together;
}

std::size_t text_step_message_bytes(const TextStepShape& shape) {
  const StepPlan plan = plan_of(shape);
  return 16 * static_cast<std::size_t>(plan.messages);
}

const char* run_step(const TextStep& step, void* stream) {
  const StepPlan plan = plan_of(step.shape);
  const auto with_lanes = [&](auto element) {
    return step.shape.head_size <= 64
        ? start_step<element(), 8>(step, plan, stream)
        : start_step<element(), 16>(step, plan, stream);
  };
  return step.shape.element == Element::bf16
      ? with_lanes(std::integral_constant<Element, Element::bf16>())
      : with_lanes(std::integral_constant<Element, Element::fp16>());
}

} // namespace cairn::kernels::cuda
