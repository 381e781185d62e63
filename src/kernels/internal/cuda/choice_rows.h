#pragma once

#include <cstdint>

namespace cairn::kernels::cuda {

// Rows for the choices of experts, sorted by expert. See cuda.h for what
// pointers, streams and results are.

/// Choices of tokens: the first ones of all tokens, then the second ones and so
/// on.
struct ChoiceRows {
  std::int64_t choices = 0;
  std::int64_t tokens = 0;
  std::int64_t experts = 0; ///< most_sorted_experts at most
  std::int64_t rows = 0;    ///< enough for all choices and empty rows
  std::int64_t unit = 1;    ///< an expert has a multiple of this, and not 0
};

inline constexpr std::int64_t most_sorted_experts = 1024;

/// The memory for the results of sort_choices().
struct ChoicePlaces {
  std::int32_t* ends = nullptr;    ///< where each expert's rows end
  std::int64_t* slots = nullptr;   ///< row of each choice
  std::int64_t* comers = nullptr;  ///< choice of each row; `choices`: none
  std::int64_t* sources = nullptr; ///< token of each row; `tokens`: none
};

/// Number of values that sort_choices() needs as scratch memory.
std::int64_t sort_workspace(const ChoiceRows& shape);

/// Gives every choice a row: those of the first expert in their order, then
/// those of the second and so on. `chosen` are the experts.
[[nodiscard]] const char* sort_choices(
    const ChoiceRows& shape,
    const std::int64_t* chosen,
    const ChoicePlaces& places,
    std::int32_t* workspace,
    void* stream);

} // namespace cairn::kernels::cuda
