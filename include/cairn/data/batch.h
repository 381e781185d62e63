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

/// Gives memory of so many bytes, aligned to 64. A GPU build hands in one that
/// gives pinned memory.
using HostAllocator =
    std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;
std::shared_ptr<std::byte> allocate_host(std::size_t bytes);

/// One array of a batch: a row for each sample.
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

/// Samples of equal shape, one below the other.
struct Batch {
  std::vector<std::int64_t> indices; ///< of the samples, in the dataset
  /// By all ranks, this batch included: where to go on after it.
  std::int64_t consumed_samples = 0;
  std::vector<BatchField> fields;

  /// Throws InternalError when there is none of this name.
  const BatchField& operator[](std::string_view name) const;
  void add(
      std::string name,
      ElementType type,
      std::size_t rows,
      std::size_t columns,
      const HostAllocator& allocate);
};

/// Curriculum by sequence length: cuts every field that is longer to `length`
/// columns, in place; the rest of each sample is left out.
void truncate(Batch& batch, std::size_t length);

/// Curriculum by sequence length: turns rows of S columns into S / length rows
/// each, in place; what is left at the end of a row is left out. Position ids
/// (the field of that name) begin at 0 in each row. All fields must have the
/// same number of columns, else it is an InternalError.
void reshape(Batch& batch, std::size_t length);

} // namespace cairn::data
