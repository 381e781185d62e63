#pragma once

#include <cairn/base/file.h>
#include <cairn/base/mapped_file.h>
#include <cairn/checkpoints/python_value.h>
#include <cairn/checkpoints/torch_file.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace cairn::checkpoints {

/// Reads what torch.save wrote into a part of a larger file. `path` is the
/// file's name, for errors. Otherwise as read_torch_file().
PythonValue read_torch_part(
    const std::shared_ptr<const MappedFile>& file,
    std::span<const std::byte> part,
    const std::filesystem::path& path,
    const TorchFileLimits& limits = {});

/// Writes what torch.save writes behind what the file has already.
void write_torch_part(AtomicFile& file, const PythonValue& value);

} // namespace cairn::checkpoints
