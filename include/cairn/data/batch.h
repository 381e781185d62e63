#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::data {

enum class ElementType : std::uint8_t { int64, float32 };
std::size_t size_of(ElementType type);

/// Returns memory of that many bytes, aligned to 64. A GPU build passes one
/// that returns pinned memory.
using HostAllocator =
    std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;
std::shared_ptr<std::byte> allocate_host(std::size_t bytes);

/// An array of a batch, with a row for each sample.
struct BatchField {
  std::string name;
  ElementType type = ElementType::int64;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::shared_ptr<std::byte> memory{}; ///< contiguous, row by row

  std::span<std::int64_t> int64s() const; ///< type must be int64
  std::span<float> floats() const;        ///< type must be float32
  std::size_t bytes() const { return rows * columns * size_of(type); }
};

/// Samples of equal shape, stacked row by row.
struct Batch {
  std::vector<std::int64_t> indices; ///< of the samples in the dataset
  /// Samples consumed by all ranks up to and including this batch: where to
  /// resume after it.
  std::int64_t consumed_samples = 0;
  std::vector<BatchField> fields;

  /// Throws InternalError when no field has this name.
  const BatchField& operator[](std::string_view name) const;
  void add(
      std::string name,
      ElementType type,
      std::size_t rows,
      std::size_t columns,
      const HostAllocator& allocate);
};

/// Curriculum by sequence length: cuts every longer field to `length` columns,
/// in place. The rest of each sample is dropped.
void truncate(Batch& batch, std::size_t length);

/// Curriculum by sequence length: turns each row of S columns into S / length
/// rows, in place; a remainder at the end of a row is dropped. Position ids
/// (the field of that name) begin at 0 in each row. Throws InternalError unless
/// all fields have the same number of columns.
void reshape(Batch& batch, std::size_t length);

} // namespace cairn::data
