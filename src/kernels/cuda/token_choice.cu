#include "kernels/internal/cuda/token_choice.h"

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/fast_math.cuh"
#include "kernels/cuda/highest.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/whole_sums.cuh"

#include <cmath>

// A block chooses a row's token. Nothing is sorted: the score at which a sum is
// reached is found digit by digit, from sums over all scores that have the
// digits found so far. Its first digits are summed once, for the end of the
// likeliest tokens and for the chosen one.

namespace cairn::kernels::cuda {
namespace {

constexpr int choice_threads = 1024;
constexpr int choice_warps = choice_threads / warp_size;
constexpr int digit_bits = 11;
constexpr unsigned digits = 1U << digit_bits;
using Digits = DigitSums<static_cast<int>(digits)>;

/// Bits that have, as unsigned numbers, the order of scores.
__device__ std::uint32_t order_of(float score) {
  const std::uint32_t bits = __float_as_uint(score == 0 ? 0.0F : score);
  return bits >> 31U != 0 ? ~bits : bits | 0x80000000U;
}

__device__ float score_of(std::uint32_t order) {
  return __uint_as_float(order >> 31U != 0 ? order & 0x7fffffffU : ~order);
}

/// Calls `work(score, column)` for columns from `first` to `end`, every
/// `stride`-th.
template <int stride, class Work>
__device__ void over_columns(
    const float* scores,
    int first,
    int end,
    const Work& work) {
  constexpr int at_once = 8;
#pragma unroll 1
  for (; first < end; first += at_once * stride) {
    float some[at_once];
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      const int column = first + k * stride;
      some[k] = column < end ? scores[column] : 0;
    }
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      if (first + k * stride < end) {
        work(some[k], first + k * stride);
      }
    }
  }
}

/// The share of a score in sums: its exponential, if it is no lower than
/// `least`.
struct Weight {
  float highest;
  float sharpness;
  std::uint32_t least;

  __device__ WholeSum operator()(float score) const {
    constexpr float whole = 68719476736; // 2^36
    return order_of(score) >= least
        ? static_cast<WholeSum>(
              power_of_two((score - highest) * sharpness) * whole)
        : 0;
  }
};

/// Every score counts once.
struct One {
  __device__ WholeSum operator()(float) const { return 1; }
};

struct HasOrder {
  std::uint32_t order;

  __device__ WholeSum operator()(float score) const {
    return order_of(score) == order ? 1 : 0;
  }
};

struct FoundDigit {
  unsigned digit;
  WholeSum before; ///< the sum of higher digits
};

/// The highest digit that takes the sum of it and higher ones above `target`,
/// which is below the sum of all.
__device__ FoundDigit find_digit(const Digits& sums, WholeSum target) {
  __shared__ FoundDigit found;
  const unsigned digit = digits - 1 - 2 * threadIdx.x;
  const WholeSum first = sums.of(digit);
  const WholeSum both = first + sums.of(digit - 1);
  const WholeSum before = over_threads<choice_threads>(both).before;
  if (target >= before && target - before < both) {
    const bool is_first = target - before < first;
    found.digit = is_first ? digit : digit - 1;
    found.before = is_first ? before : before + first;
  }
  __syncthreads();
  return found;
}

/// A block's row, all threads of which call the same functions.
struct ScoreRow {
  const float* scores;
  int columns;

  /// Sums digits of the orders whose bits above them are `higher`.
  template <class Count>
  __device__ void sum_digits(
      Digits& sums,
      int shift,
      int bits,
      std::uint32_t higher,
      const Count& count) const {
    sums.clear();
    __syncthreads();
    over_columns<choice_threads>(
        scores,
        static_cast<int>(threadIdx.x),
        columns,
        [&](float score, int) {
          const std::uint64_t order = order_of(score);
          if (order >> static_cast<unsigned>(shift + bits) == higher) {
            if (const WholeSum counted = count(score)) {
              sums.add(
                  static_cast<unsigned>(order >> static_cast<unsigned>(shift)) &
                      ((1U << static_cast<unsigned>(bits)) - 1),
                  counted);
            }
          }
        });
    __syncthreads();
  }

  template <class Count>
  __device__ void sum_first_digits(Digits& sums, const Count& count) const {
    sum_digits(sums, 32 - digit_bits, digit_bits, 0, count);
  }

  /// Scores of one order, and the sum of higher ones.
  struct Level {
    std::uint32_t order;
    WholeSum before;
  };

  /// The highest order that takes the sum of it and higher ones above `target`.
  /// `first` are the sums of first digits, `rest` is memory.
  template <class Count>
  __device__ Level find_level(
      const Digits& first,
      Digits& rest,
      WholeSum target,
      const Count& count) const {
    FoundDigit found = find_digit(first, target);
    Level level{found.digit, found.before};
    int shift = 32 - digit_bits;
#pragma unroll 1
    while (shift > 0) {
      const int bits = shift < digit_bits ? shift : digit_bits;
      shift -= bits;
      sum_digits(rest, shift, bits, level.order, count);
      found = find_digit(rest, target - level.before);
      level.order = level.order << static_cast<unsigned>(bits) | found.digit;
      level.before += found.before;
    }
    return level;
  }

  /// The first column that takes the sum of it and those before it above
  /// target_of(the sum of all), which is below that sum.
  template <class Count, class Target>
  __device__ int find_column(const Count& count, const Target& target_of)
      const {
    // Each warp sums a stretch; then all threads look at the stretch in which
    // the sum is reached.
    __shared__ WholeSum of_stretches[choice_warps];
    __shared__ int found;
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
    const int warp = static_cast<int>(threadIdx.x) / warp_size;
    const int stretch = (columns + choice_warps - 1) / choice_warps;
    const auto end_of = [&](int end) { return end < columns ? end : columns; };
    WholeSum own = 0;
    over_columns<warp_size>(
        scores,
        warp * stretch + lane,
        end_of(warp * stretch + stretch),
        [&](float score, int) { own += count(score); });
#pragma unroll
    for (int mask = 1; mask < warp_size; mask *= 2) {
      own += sum_of_thread(own, mask);
    }
    if (lane == 0) {
      of_stretches[warp] = own;
    }
    __syncthreads();
    WholeSum all = 0;
#pragma unroll 1
    for (int i = 0; i < choice_warps; ++i) {
      all += of_stretches[i];
    }
    const WholeSum target = target_of(all);
    WholeSum before = 0;
    int which = 0;
#pragma unroll 1
    while (which < choice_warps - 1 && target - before >= of_stretches[which]) {
      before += of_stretches[which++];
    }
    const int each = (stretch + choice_threads - 1) / choice_threads;
    const int begin = which * stretch + static_cast<int>(threadIdx.x) * each;
    const int end_of_stretch = end_of(which * stretch + stretch);
    const int end =
        begin + each < end_of_stretch ? begin + each : end_of_stretch;
    own = 0;
#pragma unroll 1
    for (int i = begin; i < end; ++i) {
      own += count(scores[i]);
    }
    before += over_threads<choice_threads>(own).before;
    if (target >= before && target - before < own) {
      int column = begin;
      WholeSum sum = before + count(scores[column]);
#pragma unroll 1
      while (sum <= target) {
        sum += count(scores[++column]);
      }
      found = column;
    }
    __syncthreads();
    return found;
  }
};

/// A part of a sum, below the whole of it.
__device__ WholeSum part_of(WholeSum sum, double part) {
  const auto some = static_cast<WholeSum>(part * static_cast<double>(sum));
  return some < sum ? some : sum - 1;
}

/// Changes the scores of penalized columns, and of one that is never chosen.
__device__ void penalize(
    const TokenChoices& choices,
    const TokenRule& rule,
    float* scores) {
  for (int i = static_cast<int>(threadIdx.x); i < rule.penalized;
       i += choice_threads) {
    const int at = rule.first_penalized + i;
    const int column = choices.penalized[at];
    if (column >= 0 && column < rule.among) {
      const float score = scores[column];
      choices.before[at] = score;
      scores[column] = score < 0 ? __fmul_rn(score, rule.penalty)
                                 : __fdiv_rn(score, rule.penalty);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0 && rule.never >= 0 && rule.never < rule.among) {
    scores[rule.never] = -INFINITY;
  }
  __syncthreads();
}

/// Scores of one order have one weight, so the one that is chosen among them is
/// known by its number.
__device__ int choose_among_likeliest(
    const ScoreRow& row,
    const TokenRule& rule,
    const Weight& weight,
    Digits& first,
    Digits& rest) {
  row.sum_first_digits(first, weight);
  const unsigned digit = digits - 1 - 2 * threadIdx.x;
  const WholeSum all =
      over_threads<choice_threads>(first.of(digit) + first.of(digit - 1)).all;
  const auto number_in = [&](const ScoreRow::Level& level, WholeSum target) {
    return (target - level.before) / weight(score_of(level.order));
  };
  const WholeSum limit = part_of(all, rule.top_p);
  const ScoreRow::Level last = row.find_level(first, rest, limit, weight);
  const WholeSum kept =
      last.before + (number_in(last, limit) + 1) * weight(score_of(last.order));
  const WholeSum target = part_of(kept, rule.chance);
  const ScoreRow::Level level = row.find_level(first, rest, target, weight);
  const WholeSum number = number_in(level, target);
  return row.find_column(HasOrder{level.order}, [=](WholeSum) {
    return number;
  });
}

__global__ void __launch_bounds__(choice_threads)
    choose_kernel(TokenChoices choices, ScorePeak* peaks) {
  __shared__ Digits first;
  __shared__ Digits rest;
  __shared__ float score_before;
  const TokenRule rule = choices.rules[blockIdx.x];
  float* const scores = choices.scores + rule.row * choices.step;
  if (rule.penalized > 0 || rule.never >= 0) {
    penalize(choices, rule, scores);
  }
  Highest highest{-INFINITY, 0x7fffffff};
  bool finite = true;
  over_columns<choice_threads>(
      scores,
      static_cast<int>(threadIdx.x),
      rule.among,
      [&](float score, int column) {
        finite = finite && score < INFINITY; // NaN is not
        if (score > highest.score) {
          highest = {score, column};
        }
      });
  highest = over_block(highest, TakeHigher(), 0);
  finite = over_block(Pair{finite ? 0.0F : 1.0F, 0}, Add(), 0).first == 0;
  ScorePeak& peak = peaks[rule.row];
  if (!finite || highest.score == -INFINITY) {
    if (threadIdx.x == 0) {
      peak.highest = finite ? -INFINITY : NAN;
      peak.column = 0;
    }
    return;
  }
  int column = highest.column;
  if (rule.top_k != 1) {
    const ScoreRow row{scores, rule.among};
    Weight weight{highest.score, rule.sharpness, 0};
    if (rule.top_k > 0 && rule.top_k < rule.among) {
      row.sum_first_digits(first, One());
      weight.least = row.find_level(
                            first,
                            rest,
                            static_cast<WholeSum>(rule.top_k) - 1,
                            One())
                         .order;
    }
    column = rule.top_p > 0 && rule.top_p < 1
        ? choose_among_likeliest(row, rule, weight, first, rest)
        : row.find_column(weight, [&](WholeSum all) {
            return part_of(all, rule.chance);
          });
  }
  if (threadIdx.x == 0) {
    score_before = scores[column];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < rule.penalized;
       i += choice_threads) {
    if (choices.penalized[rule.first_penalized + i] == column) {
      score_before = choices.before[rule.first_penalized + i];
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    peak.highest = score_before;
    peak.column = column;
  }
}

} // namespace

const char* choose_tokens(
    const TokenChoices& choices,
    ScorePeak* peaks,
    void* stream) {
  if (choices.count == 0) {
    return nullptr;
  }
  return launch(
      choose_kernel,
      {static_cast<unsigned>(choices.count), choice_threads},
      stream,
      choices,
      peaks);
}

} // namespace cairn::kernels::cuda
