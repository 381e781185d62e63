#pragma once

#include <cstdint>

namespace cairn::kernels::cuda {

// How tokens choose experts by scores, and how their gradients go back to the
// scores. See cuda.h for what pointers, streams and results are.

struct ExpertChoice {
  std::int64_t tokens = 0;
  std::int64_t experts = 0; ///< most_chosen_experts at most
  std::int64_t picks = 0;   ///< experts for each token
};

inline constexpr std::int64_t most_chosen_experts = 1024;

/// The memory for the results of choose_experts().
struct ChosenExperts {
  std::int64_t* experts = nullptr; ///< [picks, tokens], the likeliest first
  float* gates = nullptr;          ///< their probabilities, [picks, tokens]
  float* log_sums = nullptr;       ///< of the scores' exponentials, [tokens]
  float* means = nullptr;          ///< an expert's mean probability
  std::int64_t* counts = nullptr;  ///< an expert's choices
  std::int64_t* firsts = nullptr;  ///< an expert's first choices
};

/// Number of values of four bytes that choose_experts() needs as scratch
/// memory.
std::int64_t choice_workspace(const ExpertChoice& shape);

/// Chooses the experts with the highest scores, [tokens, experts]; the first of
/// several that have the same score. A probability is the softmax of the
/// scores.
[[nodiscard]] const char* choose_experts(
    const ExpertChoice& shape,
    const float* scores,
    const ChosenExperts& chosen,
    void* workspace,
    void* stream);

/// Writes the gradients of the scores, given those of the chosen experts'
/// probabilities, [picks, tokens], and of the experts' means. Either may be
/// null, and is zero then.
[[nodiscard]] const char* choose_experts_backward(
    const ExpertChoice& shape,
    const float* scores,
    const float* log_sums,
    const std::int64_t* experts,
    const float* of_gates,
    const float* of_means,
    float* of_scores,
    void* stream);

/// Writes each row of `from`, [rows, columns], as two rows beside each other,
/// [rows, 2 columns] in bf16: the numbers rounded, and what that lost.
[[nodiscard]] const char* split_floats(
    std::int64_t rows,
    std::int64_t columns,
    const float* from,
    void* to,
    void* stream);

} // namespace cairn::kernels::cuda
