#include "checkpoints/torch/torch_types.h"

#include <algorithm>
#include <array>

namespace cairn::checkpoints {

namespace {

struct Row {
  at::ScalarType type;
  std::string_view dtype;
  std::string_view storage;
  std::string_view numpy;
};

constexpr std::array<Row, 20> rows{{
    {at::kFloat, "float32", "FloatStorage", "f4"},
    {at::kDouble, "float64", "DoubleStorage", "f8"},
    {at::kHalf, "float16", "HalfStorage", "f2"},
    {at::kBFloat16, "bfloat16", "BFloat16Storage", ""},
    {at::kLong, "int64", "LongStorage", "i8"},
    {at::kInt, "int32", "IntStorage", "i4"},
    {at::kShort, "int16", "ShortStorage", "i2"},
    {at::kChar, "int8", "CharStorage", "i1"},
    {at::kByte, "uint8", "ByteStorage", "u1"},
    {at::kBool, "bool", "BoolStorage", "b1"},
    {at::kComplexFloat, "complex64", "ComplexFloatStorage", "c8"},
    {at::kComplexDouble, "complex128", "ComplexDoubleStorage", "c16"},
    {at::kUInt16, "uint16", "", "u2"},
    {at::kUInt32, "uint32", "", "u4"},
    {at::kUInt64, "uint64", "", "u8"},
    {at::kFloat8_e4m3fn, "float8_e4m3fn", "", ""},
    {at::kFloat8_e5m2, "float8_e5m2", "", ""},
    {at::kFloat8_e4m3fnuz, "float8_e4m3fnuz", "", ""},
    {at::kFloat8_e5m2fnuz, "float8_e5m2fnuz", "", ""},
    {at::kComplexHalf, "complex32", "", ""},
}};

std::optional<at::ScalarType> find(
    std::string_view Row::*column,
    std::string_view name) {
  const auto found = std::ranges::find(rows, name, column);
  return name.empty() || found == rows.end() ? std::nullopt
                                             : std::optional(found->type);
}

std::string_view find(std::string_view Row::*column, at::ScalarType type) {
  const auto found = std::ranges::find(rows, type, &Row::type);
  return found == rows.end() ? std::string_view() : (*found).*column;
}

} // namespace

std::optional<at::ScalarType> type_of_dtype(std::string_view dtype) {
  return find(&Row::dtype, dtype);
}

std::string_view dtype_of(at::ScalarType type) {
  return find(&Row::dtype, type);
}

std::optional<at::ScalarType> type_of_storage(std::string_view storage) {
  return storage == "UntypedStorage" ? std::optional(at::kByte)
                                     : find(&Row::storage, storage);
}

std::string_view storage_of(at::ScalarType type) {
  return find(&Row::storage, type);
}

std::optional<at::ScalarType> type_of_numpy(std::string_view dtype) {
  return find(&Row::numpy, dtype);
}

} // namespace cairn::checkpoints
