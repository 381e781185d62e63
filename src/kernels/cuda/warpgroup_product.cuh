#pragma once

#include <cuda_runtime.h>

#include <cstdint>

// Products that the four warps of a warp group start together, of matrices in
// shared memory: Hopper's own instructions, in code for sm_90a alone.
//
// Matrices are in tiles of 64 elements across, 128 bytes, whose 16-byte words
// are swizzled as TensorCopies write them. Tiles begin at multiples of 1024
// bytes.
//
// Thread 32 w + 4 g + t has of a sum of 64 x 256, for each 8 columns: row
// 16 w + g, columns 2 t and 2 t + 1; then row 16 w + g + 8.

namespace cairn::kernels::cuda {

/// Where a factor is in shared memory, as the instruction wants it.
using FactorPlace = std::uint64_t;

namespace detail {
inline constexpr std::uint64_t in_swizzled_tiles = std::uint64_t{1} << 62;
inline constexpr unsigned bytes_of_eight_rows = 1024;
} // namespace detail

/// A factor whose depth goes across the tile: a row of the tile is a row or
/// column of the product. The next 16 of the depth are 32 bytes further.
__device__ inline FactorPlace depth_across(unsigned place) {
  return detail::in_swizzled_tiles | (std::uint64_t{1} << 16) |
      (std::uint64_t{detail::bytes_of_eight_rows >> 4} << 32) |
      ((place & 0x3FFFFU) >> 4);
}

/// A factor whose depth goes down the tile. `next_tile`: bytes from 64 rows or
/// columns of the product to the next 64. The next 16 of the depth are 2048
/// bytes further.
__device__ inline FactorPlace depth_down(unsigned place, unsigned next_tile) {
  return detail::in_swizzled_tiles |
      (static_cast<std::uint64_t>(next_tile >> 4) << 16) |
      (std::uint64_t{detail::bytes_of_eight_rows >> 4} << 32) |
      ((place & 0x3FFFFU) >> 4);
}

/// Orders registers and shared memory before the products that follow.
__device__ inline void begin_products() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

/// Ends a batch of products.
__device__ inline void commit_products() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

/// Waits until no more than `batches` batches are under way.
template <int batches>
__device__ void wait_for_products() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(batches) : "memory");
#endif
}

/// Starts the product of 64 x 16 with 16 x 256 elements of bf16, and adds it to
/// `sum`, or sets the sum to it. `left_down` and `right_down` say which factors
/// are depth_down().
template <bool left_down, bool right_down>
__device__ void start_product(
    float (&sum)[128],
    FactorPlace left,
    FactorPlace right,
    bool add) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("{\n"
               ".reg .pred adds;\n"
               "setp.ne.b32 adds, %130, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
               "{%0, %1, %2, %3, %4, %5, %6, %7, "
               "%8, %9, %10, %11, %12, %13, %14, %15, "
               "%16, %17, %18, %19, %20, %21, %22, %23, "
               "%24, %25, %26, %27, %28, %29, %30, %31, "
               "%32, %33, %34, %35, %36, %37, %38, %39, "
               "%40, %41, %42, %43, %44, %45, %46, %47, "
               "%48, %49, %50, %51, %52, %53, %54, %55, "
               "%56, %57, %58, %59, %60, %61, %62, %63, "
               "%64, %65, %66, %67, %68, %69, %70, %71, "
               "%72, %73, %74, %75, %76, %77, %78, %79, "
               "%80, %81, %82, %83, %84, %85, %86, %87, "
               "%88, %89, %90, %91, %92, %93, %94, %95, "
               "%96, %97, %98, %99, %100, %101, %102, %103, "
               "%104, %105, %106, %107, %108, %109, %110, %111, "
               "%112, %113, %114, %115, %116, %117, %118, %119, "
               "%120, %121, %122, %123, %124, %125, %126, %127}, "
               "%128, %129, adds, 1, 1, %131, %132;\n"
               "}"
               : "+f"(sum[0]),
                 "+f"(sum[1]),
                 "+f"(sum[2]),
                 "+f"(sum[3]),
                 "+f"(sum[4]),
                 "+f"(sum[5]),
                 "+f"(sum[6]),
                 "+f"(sum[7]),
                 "+f"(sum[8]),
                 "+f"(sum[9]),
                 "+f"(sum[10]),
                 "+f"(sum[11]),
                 "+f"(sum[12]),
                 "+f"(sum[13]),
                 "+f"(sum[14]),
                 "+f"(sum[15]),
                 "+f"(sum[16]),
                 "+f"(sum[17]),
                 "+f"(sum[18]),
                 "+f"(sum[19]),
                 "+f"(sum[20]),
                 "+f"(sum[21]),
                 "+f"(sum[22]),
                 "+f"(sum[23]),
                 "+f"(sum[24]),
                 "+f"(sum[25]),
                 "+f"(sum[26]),
                 "+f"(sum[27]),
                 "+f"(sum[28]),
                 "+f"(sum[29]),
                 "+f"(sum[30]),
                 "+f"(sum[31]),
                 "+f"(sum[32]),
                 "+f"(sum[33]),
                 "+f"(sum[34]),
                 "+f"(sum[35]),
                 "+f"(sum[36]),
                 "+f"(sum[37]),
                 "+f"(sum[38]),
                 "+f"(sum[39]),
                 "+f"(sum[40]),
                 "+f"(sum[41]),
                 "+f"(sum[42]),
                 "+f"(sum[43]),
                 "+f"(sum[44]),
                 "+f"(sum[45]),
                 "+f"(sum[46]),
                 "+f"(sum[47]),
                 "+f"(sum[48]),
                 "+f"(sum[49]),
                 "+f"(sum[50]),
                 "+f"(sum[51]),
                 "+f"(sum[52]),
                 "+f"(sum[53]),
                 "+f"(sum[54]),
                 "+f"(sum[55]),
                 "+f"(sum[56]),
                 "+f"(sum[57]),
                 "+f"(sum[58]),
                 "+f"(sum[59]),
                 "+f"(sum[60]),
                 "+f"(sum[61]),
                 "+f"(sum[62]),
                 "+f"(sum[63]),
                 "+f"(sum[64]),
                 "+f"(sum[65]),
                 "+f"(sum[66]),
                 "+f"(sum[67]),
                 "+f"(sum[68]),
                 "+f"(sum[69]),
                 "+f"(sum[70]),
                 "+f"(sum[71]),
                 "+f"(sum[72]),
                 "+f"(sum[73]),
                 "+f"(sum[74]),
                 "+f"(sum[75]),
                 "+f"(sum[76]),
                 "+f"(sum[77]),
                 "+f"(sum[78]),
                 "+f"(sum[79]),
                 "+f"(sum[80]),
                 "+f"(sum[81]),
                 "+f"(sum[82]),
                 "+f"(sum[83]),
                 "+f"(sum[84]),
                 "+f"(sum[85]),
                 "+f"(sum[86]),
                 "+f"(sum[87]),
                 "+f"(sum[88]),
                 "+f"(sum[89]),
                 "+f"(sum[90]),
                 "+f"(sum[91]),
                 "+f"(sum[92]),
                 "+f"(sum[93]),
                 "+f"(sum[94]),
                 "+f"(sum[95]),
                 "+f"(sum[96]),
                 "+f"(sum[97]),
                 "+f"(sum[98]),
                 "+f"(sum[99]),
                 "+f"(sum[100]),
                 "+f"(sum[101]),
                 "+f"(sum[102]),
                 "+f"(sum[103]),
                 "+f"(sum[104]),
                 "+f"(sum[105]),
                 "+f"(sum[106]),
                 "+f"(sum[107]),
                 "+f"(sum[108]),
                 "+f"(sum[109]),
                 "+f"(sum[110]),
                 "+f"(sum[111]),
                 "+f"(sum[112]),
                 "+f"(sum[113]),
                 "+f"(sum[114]),
                 "+f"(sum[115]),
                 "+f"(sum[116]),
                 "+f"(sum[117]),
                 "+f"(sum[118]),
                 "+f"(sum[119]),
                 "+f"(sum[120]),
                 "+f"(sum[121]),
                 "+f"(sum[122]),
                 "+f"(sum[123]),
                 "+f"(sum[124]),
                 "+f"(sum[125]),
                 "+f"(sum[126]),
                 "+f"(sum[127])
               : "l"(left),
                 "l"(right),
                 "r"(static_cast<int>(add)),
                 "n"(left_down ? 1 : 0),
                 "n"(right_down ? 1 : 0));
#endif
}

/// The registers that each thread of the warp group needs from now on.
template <int count>
__device__ void need_more_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(count));
#endif
}

template <int count>
__device__ void need_fewer_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(count));
#endif
}

/// The threads of a warp group wait for each other. `number` is that of one of
/// the block's barriers, from 1 on.
__device__ inline void meet_group(int number) {
  asm volatile("bar.sync %0, 128;" : : "r"(number) : "memory");
}

/// Stores four matrices of 8 x 8 elements of 16 bits. `place` is, in lane 8 i +
/// j, row j of matrix i in shared memory. A thread gives elements 2 t and 2 t +
/// 1 of row g of each.
__device__ inline void store_matrices(
    unsigned place,
    const std::uint32_t (&pairs)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
      :
      : "r"(place), "r"(pairs[0]), "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3])
      : "memory");
#endif
}

/// Shared memory that was written by ordinary stores is seen by products and
/// tensor copies that a barrier orders behind.
__device__ inline void publish_stores() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

} // namespace cairn::kernels::cuda
