#include <cairn/data/batch.h>

#include <cairn/base/error.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace cairn::data {
namespace {

template <typename T>
std::span<T> as(const BatchField& field, ElementType type) {
  if (field.type != type) {
    throw InternalError(
        {.what = "a field of a batch is read as another type",
         .values = field.name});
  }
  return {reinterpret_cast<T*>(field.memory.get()), field.rows * field.columns};
}

/// Keeps the first `columns` columns of each row and closes the gaps.
void narrow(BatchField& field, std::size_t columns) {
  const std::size_t old_row = field.columns * size_of(field.type);
  const std::size_t new_row = columns * size_of(field.type);
  for (std::size_t row = 1; row < field.rows; ++row) {
    std::memmove(
        field.memory.get() + row * new_row,
        field.memory.get() + row * old_row,
        new_row);
  }
  field.columns = columns;
}

// Numbers the positions before the first restart from 0: they belong to a
// document that began earlier.
void begin_at_zero(std::span<std::int64_t> positions) {
  const std::int64_t first = positions.front();
  for (std::size_t i = 0; i < positions.size() &&
       positions[i] == first + static_cast<std::int64_t>(i);
       ++i) {
    positions[i] = static_cast<std::int64_t>(i);
  }
}

} // namespace

std::size_t size_of(ElementType type) {
  return type == ElementType::int64 ? 8 : 4;
}

std::shared_ptr<std::byte> allocate_host(std::size_t bytes) {
  constexpr std::size_t line = 64;
  void* const memory =
      std::aligned_alloc(line, (bytes + line - 1) / line * line);
  if (memory == nullptr && bytes > 0) {
    throw std::bad_alloc();
  }
  return {static_cast<std::byte*>(memory), [](std::byte* p) { std::free(p); }};
}

std::span<std::int64_t> BatchField::int64s() const {
  return as<std::int64_t>(*this, ElementType::int64);
}

std::span<float> BatchField::floats() const {
  return as<float>(*this, ElementType::float32);
}

const BatchField& Batch::operator[](std::string_view name) const {
  for (const BatchField& field : fields) {
    if (field.name == name) {
      return field;
    }
  }
  throw InternalError(
      {.what = "a batch has no such field", .values = std::string(name)});
}

void Batch::add(
    std::string name,
    ElementType type,
    std::size_t rows,
    std::size_t columns,
    const HostAllocator& allocate) {
  BatchField field{
      .name = std::move(name),
      .type = type,
      .rows = rows,
      .columns = columns};
  field.memory = allocate(field.bytes());
  fields.push_back(std::move(field));
}

void truncate(Batch& batch, std::size_t length) {
  for (BatchField& field : batch.fields) {
    if (field.columns > length) {
      narrow(field, length);
    }
  }
}

void reshape(Batch& batch, std::size_t length) {
  for (BatchField& field : batch.fields) {
    if (length == 0 || field.columns < length ||
        field.columns != batch.fields.front().columns) {
      throw InternalError(
          {.what = "a batch cannot be reshaped to this length",
           .values = field.name});
    }
  }
  for (BatchField& field : batch.fields) {
    const std::size_t pieces = field.columns / length;
    narrow(field, pieces * length);
    field.rows *= pieces;
    field.columns = length;
    if (field.name == "position_ids") {
      const auto positions = field.int64s();
      for (std::size_t row = 0; row < field.rows; ++row) {
        begin_at_zero(positions.subspan(row * length, length));
      }
    }
  }
}

} // namespace cairn::data
