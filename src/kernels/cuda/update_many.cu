#include "kernels/internal/cuda/update_many.h"

#include "kernels/cuda/for_each.cuh"
#include "kernels/cuda/row_of_block.cuh"
#include "kernels/cuda/update_elements.cuh"

namespace cairn::kernels::cuda {
namespace {

/// Every thread takes four turns of four elements, so that finding the row of a
/// block costs little beside them.
constexpr std::int64_t elements_of_block = 4 * 4 * block_size;

template <int width, class Work>
__device__ void run_block(
    const Work& work,
    std::int64_t begin,
    std::int64_t end) {
  std::int64_t i = begin + static_cast<std::int64_t>(threadIdx.x) * width;
  for (; i + width <= end; i += block_size * width) {
    work.template operator()<width>(i);
  }
  for (; i < end; ++i) { // at most one thread has elements left
    work.template operator()<1>(i);
  }
}

template <class Formula, bool has_narrow>
__global__ void __launch_bounds__(block_size)
    update_many_kernel(ManyStretches many) {
  const std::int64_t block = blockIdx.x;
  const ManyStretchesRow row = row_of_block(many.rows, many.count, block);
  Stretch stretch = row.stretch;
  stretch.gradient_factor = many.gradient_factor;
  if (has_narrow) {
    stretch.narrow.key = *many.key;
  }
  const auto work = elements_of<has_narrow>(
      stretch,
      static_cast<const Formula*>(many.formulas)[row.formula],
      nullptr);
  const std::int64_t begin = (block - row.first_block) * elements_of_block;
  const std::int64_t end = begin + elements_of_block < stretch.count
      ? begin + elements_of_block
      : stretch.count;
  if (row.fours != 0) {
    run_block<4>(work, begin, end);
  } else {
    run_block<1>(work, begin, end);
  }
}

} // namespace

std::int64_t number_blocks(ManyStretchesRow* rows, std::int64_t count) {
  std::int64_t blocks = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    ManyStretchesRow& row = rows[i];
    row.fours = takes_fours(row.stretch) ? 1 : 0;
    row.first_block = blocks;
    blocks += (row.stretch.count + elements_of_block - 1) / elements_of_block;
  }
  return blocks;
}

template <class Formula>
const char* update_many(const ManyStretches& many, void* stream) {
  if (many.blocks == 0) {
    return nullptr;
  }
  return launch(
      many.any_narrow ? update_many_kernel<Formula, true>
                      : update_many_kernel<Formula, false>,
      {static_cast<unsigned>(many.blocks), block_size},
      stream,
      many);
}

template const char* update_many<Adagrad>(const ManyStretches&, void*);
template const char* update_many<Adam<false>>(const ManyStretches&, void*);
template const char* update_many<Adam<true>>(const ManyStretches&, void*);
template const char* update_many<Descent>(const ManyStretches&, void*);
template const char* update_many<LambDirection>(const ManyStretches&, void*);
template const char* update_many<Lion>(const ManyStretches&, void*);
template const char* update_many<MuonMomentum>(const ManyStretches&, void*);
template const char* update_many<Sgd>(const ManyStretches&, void*);

} // namespace cairn::kernels::cuda
