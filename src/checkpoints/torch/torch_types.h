#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string_view>

namespace cairn::checkpoints {

/// The type of a dtype, such as "float32" in `torch.float32`.
std::optional<at::ScalarType> type_of_dtype(std::string_view dtype);
std::string_view dtype_of(at::ScalarType type);

/// The type of a storage class, such as "FloatStorage"; an UntypedStorage holds
/// bytes.
std::optional<at::ScalarType> type_of_storage(std::string_view storage);
/// The storage class of a type; empty where torch has none.
std::string_view storage_of(at::ScalarType type);

/// The type of a numpy dtype, such as "u4" in `numpy.dtype("u4")`.
std::optional<at::ScalarType> type_of_numpy(std::string_view dtype);

} // namespace cairn::checkpoints
