// Our declarations of cuBLASLt against its own header, where that is.
#include "kernels/cuda/cublas_lt.h"

#include <gtest/gtest.h>

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

namespace cairn::kernels::cuda {
namespace {

template <class Own, class Theirs>
constexpr bool same(Own own, Theirs theirs) {
  return static_cast<int>(own) == static_cast<int>(theirs);
}

static_assert(same(LtAttribute::transpose_a, CUBLASLT_MATMUL_DESC_TRANSA));
static_assert(same(LtAttribute::transpose_b, CUBLASLT_MATMUL_DESC_TRANSB));
static_assert(same(LtAttribute::epilogue, CUBLASLT_MATMUL_DESC_EPILOGUE));
static_assert(
    same(LtAttribute::bias_pointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER));
static_assert(
    same(LtAttribute::kept_pointer, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER));
static_assert(
    same(LtAttribute::kept_step, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD));
static_assert(
    same(LtAttribute::a_unit_pointer, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER));
static_assert(
    same(LtAttribute::b_unit_pointer, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER));
static_assert(same(LtAttribute::fast_sums, CUBLASLT_MATMUL_DESC_FAST_ACCUM));
static_assert(same(LtEpilogue::nothing, CUBLASLT_EPILOGUE_DEFAULT));
static_assert(same(LtEpilogue::bias, CUBLASLT_EPILOGUE_BIAS));
static_assert(same(LtEpilogue::gelu_bias, CUBLASLT_EPILOGUE_GELU_BIAS));
static_assert(
    same(LtEpilogue::gelu_bias_kept, CUBLASLT_EPILOGUE_GELU_AUX_BIAS));
static_assert(same(LtEpilogue::gelu_gradient, CUBLASLT_EPILOGUE_DGELU));
static_assert(same(
    LtPreference::workspace_bytes,
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES));
static_assert(same(
    LtPreference::alignment_a,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES));
static_assert(same(
    LtPreference::alignment_d,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES));
static_assert(same(lt_compute_fp32, CUBLAS_COMPUTE_32F));
static_assert(same(lt_fp32, CUDA_R_32F));
static_assert(same(lt_fp16, CUDA_R_16F));
static_assert(same(lt_bf16, CUDA_R_16BF));
static_assert(same(lt_e4m3, CUDA_R_8F_E4M3));
static_assert(same(lt_e5m2, CUDA_R_8F_E5M2));
static_assert(sizeof(LtAlgorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(LtProposal) == sizeof(cublasLtMatmulHeuristicResult_t));

} // namespace
} // namespace cairn::kernels::cuda
#endif

namespace cairn::kernels::cuda {
namespace {

TEST(CublasLt, IsThereWithLibtorch) {
  EXPECT_NE(cublas_lt(), nullptr);
}

} // namespace
} // namespace cairn::kernels::cuda
