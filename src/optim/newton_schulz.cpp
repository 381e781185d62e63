#include "optim/internal/newton_schulz.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/internal/cpu/cpu.h"

namespace cairn::optim {
namespace {

/// A matrix with the few operations that orthogonal() needs.
class Matrix {
 public:
  Matrix(std::int64_t rows, std::int64_t columns)
      : rows_(rows),
        columns_(columns),
        values_(static_cast<std::size_t>(rows * columns)) {}

  std::int64_t size(int dim) const { return dim == 0 ? rows_ : columns_; }
  float* row(std::int64_t i) { return values_.data() + i * columns_; }
  const float* row(std::int64_t i) const {
    return values_.data() + i * columns_;
  }

  double norm() const {
    return std::sqrt(kernels::cpu::sum_of_squares(
        values_.data(),
        kernels::Element::fp32,
        rows_ * columns_));
  }

  Matrix t() const {
    Matrix result(columns_, rows_);
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = 0; j < columns_; ++j) {
        result.row(j)[i] = row(i)[j];
      }
    }
    return result;
  }

  /// Computes each row as a sum of the other matrix's rows, in blocks that stay
  /// in the cache.
  Matrix matmul(const Matrix& other) const {
    constexpr std::int64_t block = 128;
    Matrix result(rows_, other.columns_);
    for (std::int64_t begin = 0; begin < columns_; begin += block) {
      const std::int64_t end = std::min(begin + block, columns_);
      for (std::int64_t i = 0; i < rows_; ++i) {
        for (std::int64_t k = begin; k < end; ++k) {
          kernels::cpu::accumulate(
              result.row(i),
              other.row(k),
              kernels::Element::fp32,
              other.columns_,
              {.factor = row(i)[k]});
        }
      }
    }
    return result;
  }

  friend Matrix operator*(double factor, const Matrix& matrix) {
    Matrix result(matrix.rows_, matrix.columns_);
    result.add(matrix, factor);
    return result;
  }
  friend Matrix operator/(const Matrix& matrix, double divisor) {
    return (1 / divisor) * matrix;
  }
  friend Matrix operator+(Matrix a, const Matrix& b) {
    a.add(b, 1);
    return a;
  }

 private:
  void add(const Matrix& other, double factor) {
    kernels::cpu::accumulate(
        values_.data(),
        other.values_.data(),
        kernels::Element::fp32,
        rows_ * columns_,
        {.factor = static_cast<float>(factor)});
  }

  std::int64_t rows_;
  std::int64_t columns_;
  std::vector<float> values_;
};

} // namespace

void orthogonalise(
    float* matrix,
    std::int64_t rows,
    std::int64_t columns,
    OrthogonalMethod method) {
  Matrix from(rows, columns);
  std::copy(matrix, matrix + rows * columns, from.row(0));
  const Matrix result = orthogonal(from, method);
  std::copy(result.row(0), result.row(0) + rows * columns, matrix);
}

} // namespace cairn::optim
