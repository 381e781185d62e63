#pragma once

#include <cairn/checkpoint/python_value.h>

#include <cstddef>
#include <filesystem>

namespace cairn::checkpoints {

struct TorchFileLimits {
  /// Of the part that describes the tensors.
  std::size_t pickle_bytes = std::size_t{1} << 30;
  std::size_t values = 5'000'000;
};

/// Reads a file of Python's torch.save, of today's format or that before
/// torch 1.6. Nothing in it is run, whatever it asks for; tensors are read when
/// asked for. The file must not change while a value of it is alive.
///
/// Throws CheckpointError, with what is wrong, for anything else.
PythonValue read_torch_file(
    const std::filesystem::path& path,
    const TorchFileLimits& limits = {});

/// Writes a file that Python's torch.load(path, weights_only=True) opens, if
/// the value holds nothing but data. Tensors that share memory share it there.
void write_torch_file(
    const std::filesystem::path& path,
    const PythonValue& value);

} // namespace cairn::checkpoints
