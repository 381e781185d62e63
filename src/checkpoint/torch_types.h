#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string_view>

namespace cairn::checkpoints {

/// "float32" of `torch.float32`.
std::optional<at::ScalarType> type_of_dtype(std::string_view dtype);
std::string_view dtype_of(at::ScalarType type);

/// "FloatStorage" of `torch.FloatStorage`; an UntypedStorage holds bytes.
std::optional<at::ScalarType> type_of_storage(std::string_view storage);
/// Empty where torch has no class of its own for it.
std::string_view storage_of(at::ScalarType type);

/// "u4" of `numpy.dtype("u4")`.
std::optional<at::ScalarType> type_of_numpy(std::string_view dtype);

} // namespace cairn::checkpoints
