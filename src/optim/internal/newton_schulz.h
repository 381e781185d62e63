#pragma once

#include <cairn/optim/rule.h>

#include <cstdint>

namespace cairn::optim {

namespace newton_schulz_detail {

// Coefficients of Keller Jordan's quintic. One step multiplies every singular
// value s by a + b s^2 + c s^4: steep at zero rather than exact at one, so that
// five steps bring nearly all of them between 0.7 and 1.2.
inline constexpr double a = 3.4445;
inline constexpr double b = -4.7750;
inline constexpr double c = 2.0315;

/// The Z of a step from X to a X + Z X, where R = X Xt.
template <class Matrix>
Matrix step_of(const Matrix& r) {
  return b * r + c * r.matmul(r);
}

template <class Matrix>
Matrix standard(Matrix x) {
  for (int i = 0; i < 5; ++i) {
    const Matrix z = step_of<Matrix>(x.matmul(x.t()));
    x = a * x + z.matmul(x);
  }
  return x;
}

template <class Matrix>
Matrix gram(Matrix x) {
  // Five steps in two rounds: R is computed anew between them, because in 16
  // bits the R that is carried along drifts.
  for (const int steps : {2, 3}) {
    Matrix r = x.matmul(x.t());
    Matrix z = step_of(r);
    // The steps so far are X -> k X + P X.
    double k = a;
    Matrix p = z;
    for (int i = 1; i < steps; ++i) {
      const Matrix half = a * r + z.matmul(r);
      r = a * half + z.matmul(half);
      z = step_of(r);
      p = a * p + z.matmul(p) + k * z;
      k *= a;
    }
    x = k * x + p.matmul(x);
  }
  return x;
}

} // namespace newton_schulz_detail

/// The matrix with (about) the same singular vectors and singular values near
/// one, by Newton-Schulz iteration. `Matrix` is at::Tensor in two dimensions,
/// or any type with its t, matmul, norm, size and arithmetic; the type of its
/// elements is the precision of all products.
template <class Matrix>
Matrix orthogonal(const Matrix& matrix, OrthogonalMethod method) {
  using namespace newton_schulz_detail;
  const bool tall = matrix.size(0) > matrix.size(1);
  Matrix x = tall ? matrix.t() : matrix;
  x = x / (x.norm() + 1e-7);
  const bool small_side = x.size(0) < x.size(1);
  x = method == OrthogonalMethod::gram && small_side ? gram(x) : standard(x);
  return tall ? Matrix(x.t()) : x;
}

/// orthogonal() in place, in fp32 on one thread of the CPU: for small matrices,
/// and for programs without libtorch.
void orthogonalise(
    float* matrix,
    std::int64_t rows,
    std::int64_t columns,
    OrthogonalMethod method);

} // namespace cairn::optim
