#pragma once

#include <cairn/base/error.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace cairn::inline base {

/// An error that reads
/// `path: cannot ACTION: No space left on device (values); free some space …`
DataError file_error(
    std::string_view action,
    const std::filesystem::path& path,
    int error_number,
    std::string values = {});

} // namespace cairn::base
