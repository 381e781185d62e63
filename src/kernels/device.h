#pragma once

/// Marks a formula that CPU and GPU share.
#ifdef __CUDACC__
#define CAIRN_DEVICE __device__ __forceinline__
#else
#define CAIRN_DEVICE inline __attribute__((always_inline))
#endif
