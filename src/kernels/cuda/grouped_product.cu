#include "kernels/internal/cuda/grouped_product.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <cuda_bf16.h>

#include "kernels/cuda/grouped_finish.cuh"
#include "kernels/cuda/grouped_ring.cuh"
#include "kernels/cuda/grouped_tiles.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/tensor_copies.cuh"
#include "kernels/cuda/warpgroup_product.cuh"

// A block stays for many tiles of 128 x 256 results. One thread of its last
// warp group copies the factors of one tile after the other into a ring of
// stages. Each of the first two warp groups, the workers, multiplies 64 of the
// rows. The second one is behind, so that one multiplies while the other
// writes. Blocks are in pairs: the tiles of a pair are beside or above each
// other, and each block copies half of the factor that they share for both.

namespace cairn::kernels::cuda {
namespace {

using namespace grouped; // NOLINT(google-build-using-namespace)

/// The tiles' products, whose last operation runs during the next tile.
template <class Form>
__device__ void work_on_late_tiles(
    const Work& work,
    const Ring& ring,
    const Worker& worker) {
  using Memory = typename Form::Memory;
  constexpr Last last = Form::last;
  static_assert(Memory::boxes_of_desk == right_boxes);
  const unsigned desk =
      ring.memory + Memory::desks_at + worker.number * Memory::desk_bytes;
  Tiles tiles(work);
  Place place;
  RingPlace<Memory::stages> at;
  LateRows<last.finish, last.kind> late(work, desk, worker);
  const auto meanwhile = [&] { late.do_some(); };
  while (tiles.next(place)) {
    const int rows = place.rows - worker.number * half;
    late.spread(place.steps);
    if (rows <= 0 || place.column >= work.columns) {
      pass_tile(place, ring, at, worker, meanwhile);
      continue;
    }
    Biases biases{};
    if constexpr (Form::has_bias) {
      biases = read_biases(place, work, worker);
    } else {
      fetch_sums(place, work, rows, worker);
    }
    Sums sums;
    multiply_tile<Form::factors>(sums, place, ring, at, worker, meanwhile);
    late.do_rest();
#pragma unroll
    for (int box = 0; box < right_boxes; ++box) {
      lay_out<Form::has_bias>(
          sums,
          box,
          desk + box * box_bytes,
          biases,
          worker);
    }
    __syncwarp();
    late.begin(place, rows);
  }
  late.do_rest();
  give_up_lead(ring, at, worker);
}

/// The tiles' products, each of which is written before the next one begins.
template <class Form>
__device__ void work_on_tiles(
    const CUtensorMap& result,
    const Work& work,
    const Ring& ring,
    const Worker& worker) {
  using Memory = typename Form::Memory;
  constexpr bool of_weights = Form::factors == Factors::rows_by_rows;
  const unsigned desk =
      ring.memory + Memory::desks_at + worker.number * Memory::desk_bytes;
  Tiles tiles(work);
  Place place;
  RingPlace<Memory::stages> at;
  const auto meanwhile = [] {};
  while (tiles.next(place)) {
    const int rows = place.rows - worker.number * half;
    if (rows <= 0 || place.column >= work.columns) {
      pass_tile(place, ring, at, worker, meanwhile);
      continue;
    }
    Biases biases{};
    if constexpr (Form::has_bias) {
      biases = read_biases(place, work, worker);
    }
    Sums sums;
    if (of_weights && place.steps == 0) {
      if (work.add) {
        continue;
      }
#pragma unroll
      for (float& sum : sums) {
        sum = 0;
      }
    } else {
      multiply_tile<Form::factors>(sums, place, ring, at, worker, meanwhile);
    }
    const int row = place.row + worker.number * half;
    if (of_weights || rows >= half) {
      const BoxPlace to = of_weights
          ? BoxPlace{place.column, row, place.group}
          : BoxPlace{place.column, place.begin + row};
      write_boxes<Form>(sums, biases, result, desk, to, work.add, worker);
    } else if constexpr (!of_weights) {
      write_some_rows<Form>(sums, biases, desk, place, work, rows, worker);
    }
  }
  give_up_lead(ring, at, worker);
  if (worker.thread == 0) {
    wait_for_writes();
  }
}

template <class Form>
__global__ void __launch_bounds__(threads_of_block, 1) grouped_product_kernel(
    const __grid_constant__ CUtensorMap left,
    const __grid_constant__ CUtensorMap right,
    const __grid_constant__ CUtensorMap result,
    const Work work) {
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __trap(); // Hopper has code of its own, and no other GPU is asked
#endif
  extern __shared__ __align__(1024) unsigned char block_memory[];
  using Memory = typename Form::Memory;
  constexpr int stages = Memory::stages;
  auto* const barriers =
      reinterpret_cast<CopyBarrier*>(block_memory + Memory::barriers_at);
  const Ring ring{
      shared_place(block_memory),
      barriers,
      barriers + stages,
      barriers + 2 * stages};
  const int number = static_cast<int>(threadIdx.x) / group_threads;
  if (threadIdx.x == 0) {
    fetch_description(left);
    fetch_description(right);
    fetch_description(result);
    for (int i = 0; i < stages; ++i) {
      make_barrier(&ring.full[i], 1);
      make_barrier(&ring.free[i], pair * workers * 4); // a thread of each warp
    }
    make_barrier(ring.lead, 1);
    publish_barriers();
  }
  meet_pair();
  if (number == workers) {
    need_fewer_registers<40>();
    if (threadIdx.x == workers * group_threads) {
      copy_factors<Form::factors, stages>(left, right, work, ring);
    }
  } else {
    need_more_registers<232>();
    const int thread = static_cast<int>(threadIdx.x) % group_threads;
    const Worker worker{number, thread, thread / 32, thread % 32};
    wait_for_lead(ring, worker);
    if constexpr (Form::is_late) {
      work_on_late_tiles<Form>(work, ring, worker);
    } else {
      work_on_tiles<Form>(result, work, ring, worker);
    }
  }
  meet_pair(); // the other block still reads, writes and arrives here
}

const char* failure_of(cudaError_t error) {
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

template <class Form>
const char* start(
    const BoxedTensor& left,
    const BoxedTensor& right,
    const BoxedTensor& result,
    const Work& work,
    std::int64_t pairs_at_most,
    void* stream) {
  // First of all, since it makes the device known to this thread.
  const auto kernel = grouped_product_kernel<Form>;
  if (const char* failure = failure_of(cudaFuncSetAttribute(
          kernel,
          cudaFuncAttributeMaxDynamicSharedMemorySize,
          static_cast<int>(Form::Memory::bytes)))) {
    return failure;
  }
  CUtensorMap left_map;
  CUtensorMap right_map;
  CUtensorMap result_map;
  if (const char* failure = describe(left, left_map)) {
    return failure;
  }
  if (const char* failure = describe(right, right_map)) {
    return failure;
  }
  if (const char* failure = describe(result, result_map)) {
    return failure;
  }
  const std::int64_t pairs = std::clamp<std::int64_t>(
      pairs_at_most,
      1,
      std::max(processors() / pair, 1));
  cudaLaunchAttribute in_pairs{};
  in_pairs.id = cudaLaunchAttributeClusterDimension;
  in_pairs.val.clusterDim.x = pair;
  in_pairs.val.clusterDim.y = 1;
  in_pairs.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(pairs * pair));
  config.blockDim = dim3(threads_of_block);
  config.dynamicSmemBytes = Form::Memory::bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &in_pairs;
  config.numAttrs = 1;
  return failure_of(cudaLaunchKernelEx(
      &config,
      kernel,
      left_map,
      right_map,
      result_map,
      work));
}

bool at_sixteen(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % 16 == 0;
}

bool fits(const ProductGroups& groups) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  return groups.rows >= 0 && groups.rows <= most && groups.groups > 0 &&
      groups.groups <= 65536 && groups.ends != nullptr;
}

bool fits(std::int64_t columns) {
  constexpr std::int64_t most = std::int64_t{1} << 24;
  return columns > 0 && columns <= most && columns % 8 == 0;
}

std::int64_t across(std::int64_t columns, std::int64_t step) {
  return (columns + step - 1) / step;
}

/// Tiles of 128 rows of all groups, at most.
std::int64_t tiles_down(const ProductGroups& groups) {
  return groups.rows / tile_rows + groups.groups;
}

/// Pairs of tiles, at most.
std::int64_t tile_pairs(std::int64_t down, std::int64_t columns) {
  return down * across(columns, pair * tile_columns);
}

template <Factors factors>
const char* start_rows(
    const RowsProduct& product,
    const BoxedTensor& left,
    const BoxedTensor& right,
    const BoxedTensor& result,
    const Work& work,
    void* stream) {
  using R = __nv_bfloat16;
  const std::int64_t pairs =
      tile_pairs(tiles_down(product.groups), product.columns);
  const auto started = [&](auto form) {
    return start<decltype(form)>(left, right, result, work, pairs, stream);
  };
  const bool exact = product.kind == Gelu::exact;
  if constexpr (factors == Factors::rows_by_transposed) {
    constexpr auto gelu = GroupFinish::gelu;
    switch (product.finish) {
      case GroupFinish::nothing:
      case GroupFinish::add_bias:
        return started(Form<factors, R, GroupFinish::add_bias, Gelu::tanh>());
      case gelu:
        return exact ? started(Form<factors, R, gelu, Gelu::exact>())
                     : started(Form<factors, R, gelu, Gelu::tanh>());
      case GroupFinish::gelu_gradient:
        break;
    }
  } else {
    constexpr auto slope = GroupFinish::gelu_gradient;
    switch (product.finish) {
      case GroupFinish::nothing:
        return started(Form<factors, R, GroupFinish::nothing, Gelu::tanh>());
      case slope:
        return exact ? started(Form<factors, R, slope, Gelu::exact>())
                     : started(Form<factors, R, slope, Gelu::tanh>());
      case GroupFinish::add_bias:
      case GroupFinish::gelu:
        break;
    }
  }
  return "grouped products have no such last operation";
}

__device__ int tiles_of(int rows) {
  return (rows + tile_rows - 1) / tile_rows;
}

constexpr int sum_threads = 128;

/// Sums the parts of one group, 128 columns of them.
template <class Result>
__global__ void __launch_bounds__(sum_threads) sum_parts_kernel(
    const std::int32_t* ends,
    std::int64_t columns,
    const float* parts,
    Result* sums) {
  const auto group = static_cast<int>(blockIdx.y);
  const std::int64_t column =
      static_cast<std::int64_t>(blockIdx.x) * sum_threads + threadIdx.x;
  if (column >= columns) {
    return;
  }
  std::int64_t first = 0;
  int begin = 0;
  for (int i = 0; i < group; ++i) {
    const int end = max(ends[i], begin);
    first += tiles_of(end - begin) * workers;
    begin = end;
  }
  const int rows = max(ends[group], begin) - begin;
  const int count = (rows + half - 1) / half;
  float sum = 0;
#pragma unroll 8
  for (std::int64_t i = first; i < first + count; ++i) {
    sum += parts[i * columns + column];
  }
  sums[group * columns + column] = Result(sum);
}

} // namespace

bool has_grouped_products() {
  int device = 0;
  int major = 0;
  int minor = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
      cudaDeviceGetAttribute(
          &major,
          cudaDevAttrComputeCapabilityMajor,
          device) == cudaSuccess &&
      cudaDeviceGetAttribute(
          &minor,
          cudaDevAttrComputeCapabilityMinor,
          device) == cudaSuccess &&
      major == 9 && minor == 0;
}

bool takes(const RowsProduct& product) {
  const bool is_gradient = product.finish == GroupFinish::gelu_gradient;
  const bool has_sums = product.finish == GroupFinish::gelu || is_gradient;
  const bool has_bias = product.finish == GroupFinish::gelu ||
      product.finish == GroupFinish::add_bias;
  return fits(product.groups) && fits(product.columns) && fits(product.depth) &&
      at_sixteen(product.left) && at_sixteen(product.right) &&
      at_sixteen(product.result) && at_sixteen(product.bias) &&
      at_sixteen(product.sums) && has_sums == (product.sums != nullptr) &&
      is_gradient == (product.parts != nullptr) &&
      (has_bias || product.bias == nullptr) &&
      (product.transposed ? !is_gradient : !has_bias);
}

bool takes(const WeightsProduct& product) {
  return fits(product.groups) && fits(product.out) && fits(product.in) &&
      at_sixteen(product.left) && at_sixteen(product.right) &&
      at_sixteen(product.result) &&
      (product.element == Element::bf16 || product.element == Element::fp32);
}

const char* multiply(const RowsProduct& product, void* stream) {
  if (product.groups.rows == 0) {
    return nullptr;
  }
  const BoxedTensor left{
      product.left,
      1,
      product.groups.rows,
      product.depth,
      half};
  const BoxedTensor right{
      product.right,
      product.groups.groups,
      product.transposed ? product.columns : product.depth,
      product.transposed ? product.depth : product.columns,
      product.transposed ? right_copy<Factors::rows_by_transposed> : half};
  const BoxedTensor result{
      product.result,
      1,
      product.groups.rows,
      product.columns,
      half};
  const Work work{
      .ends = product.groups.ends,
      .groups = static_cast<int>(product.groups.groups),
      .columns = static_cast<int>(product.columns),
      .depth = static_cast<int>(product.depth),
      .result = product.result,
      .bias = static_cast<const __nv_bfloat16*>(product.bias),
      .sums = static_cast<__nv_bfloat16*>(product.sums),
      .parts = product.parts};
  return product.transposed ? start_rows<Factors::rows_by_transposed>(
                                  product,
                                  left,
                                  right,
                                  result,
                                  work,
                                  stream)
                            : start_rows<Factors::rows_by_matrix>(
                                  product,
                                  left,
                                  right,
                                  result,
                                  work,
                                  stream);
}

const char* multiply(const WeightsProduct& product, void* stream) {
  const ProductGroups& groups = product.groups;
  if (groups.rows == 0) {
    const std::size_t bytes = product.element == Element::fp32 ? 4 : 2;
    return product.add ? nullptr
                       : failure_of(cudaMemsetAsync(
                             product.result,
                             0,
                             static_cast<std::size_t>(
                                 groups.groups * product.out * product.in) *
                                 bytes,
                             static_cast<cudaStream_t>(stream)));
  }
  const BoxedTensor left{product.left, 1, groups.rows, product.out, half};
  const BoxedTensor right{product.right, 1, groups.rows, product.in, half};
  const bool fp32 = product.element == Element::fp32;
  const BoxedTensor result{
      product.result,
      groups.groups,
      product.out,
      product.in,
      half,
      fp32};
  const Work work{
      .ends = groups.ends,
      .groups = static_cast<int>(groups.groups),
      .rows = static_cast<int>(product.out),
      .columns = static_cast<int>(product.in),
      .result = product.result,
      .add = product.add};
  const std::int64_t pairs =
      tile_pairs(groups.groups * across(product.out, tile_rows), product.in);
  constexpr auto factors = Factors::rows_by_rows;
  constexpr auto plain = GroupFinish::nothing;
  return fp32 ? start<Form<factors, float, plain, Gelu::tanh>>(
                    left,
                    right,
                    result,
                    work,
                    pairs,
                    stream)
              : start<Form<factors, __nv_bfloat16, plain, Gelu::tanh>>(
                    left,
                    right,
                    result,
                    work,
                    pairs,
                    stream);
}

std::int64_t product_parts(const ProductGroups& groups) {
  return tiles_down(groups) * workers;
}

const char* sum_product_parts(
    const ProductGroups& groups,
    std::int64_t columns,
    const float* parts,
    void* sums,
    Element element,
    void* stream) {
  const Grid grid{
      dim3(
          static_cast<unsigned>(across(columns, sum_threads)),
          static_cast<unsigned>(groups.groups)),
      dim3(sum_threads)};
  if (element == Element::fp32) {
    return launch(
        sum_parts_kernel<float>,
        grid,
        stream,
        groups.ends,
        columns,
        parts,
        static_cast<float*>(sums));
  }
  if (element == Element::bf16) {
    return launch(
        sum_parts_kernel<__nv_bfloat16>,
        grid,
        stream,
        groups.ends,
        columns,
        parts,
        static_cast<__nv_bfloat16*>(sums));
  }
  return "sums of parts are fp32 or bf16";
}

} // namespace cairn::kernels::cuda
