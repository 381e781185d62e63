#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace cairn::kernels::cuda {

// The part of cuBLASLt that we call. It is declared here, because its own
// header is in a package of several hundred megabytes that nobody needs
// otherwise to build. tests/kernels/cublas_lt_gpu_test.cpp compares both where
// that header is.

using LtHandle = void*;
using LtObject = void*; ///< what a create function makes

/// An algorithm, opaque, valid for one version of the library.
struct LtAlgorithm {
  std::array<std::uint64_t, 8> data;
};

/// A proposed algorithm.
struct LtProposal {
  LtAlgorithm algorithm;
  std::size_t workspace;
  int state;
  float waves;
  std::array<int, 4> reserved;
};

enum class LtAttribute { // of a product
  transpose_a = 3,
  transpose_b = 4,
  epilogue = 7,
  bias_pointer = 8,
  kept_pointer = 11,
  kept_step = 12,
  a_unit_pointer = 17,
  b_unit_pointer = 18,
  fast_sums = 25,
};

enum class LtEpilogue {
  nothing = 1,
  bias = 4,
  gelu_bias = 32 | 4,
  gelu_bias_kept = 32 | 128 | 4,
  gelu_gradient = 64 | 128,
};

enum class LtPreference {
  workspace_bytes = 1,
  // Bytes of which the addresses of the matrices are multiples.
  alignment_a = 5,
  alignment_b = 6,
  alignment_c = 7,
  alignment_d = 8,
};

inline constexpr int lt_compute_fp32 = 68;
inline constexpr int lt_fp32 = 0;
inline constexpr int lt_fp16 = 2;
inline constexpr int lt_bf16 = 14;
inline constexpr int lt_e4m3 = 28;
inline constexpr int lt_e5m2 = 29;

/// The library's functions, as they were found at run time.
struct CublasLt {
  std::size_t (*version)();
  int (*create)(LtHandle*);
  int (*product_create)(LtObject*, int compute, int scale);
  int (*product_destroy)(LtObject);
  int (*product_set)(LtObject, int attribute, const void*, std::size_t);
  int (*layout_create)(
      LtObject*,
      int type,
      std::uint64_t rows,
      std::uint64_t columns,
      std::int64_t step);
  int (*layout_destroy)(LtObject);
  int (*preference_create)(LtObject*);
  int (*preference_destroy)(LtObject);
  int (*preference_set)(LtObject, int attribute, const void*, std::size_t);
  int (*propose)(
      LtHandle,
      LtObject product,
      LtObject a,
      LtObject b,
      LtObject c,
      LtObject d,
      LtObject preference,
      int most,
      LtProposal*,
      int* count);
  int (*multiply)(
      LtHandle,
      LtObject product,
      const void* alpha,
      const void* a,
      LtObject a_layout,
      const void* b,
      LtObject b_layout,
      const void* beta,
      const void* c,
      LtObject c_layout,
      void* d,
      LtObject d_layout,
      const LtAlgorithm*,
      void* workspace,
      std::size_t workspace_bytes,
      cudaStream_t);
};

/// The library of the version that libtorch uses; null if there is none.
const CublasLt* cublas_lt();

} // namespace cairn::kernels::cuda
