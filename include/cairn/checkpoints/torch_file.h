#pragma once

#include <cairn/checkpoints/python_value.h>

#include <cstddef>
#include <filesystem>

namespace cairn::checkpoints {

struct TorchFileLimits {
  /// Largest size of the pickle, which describes the tensors.
  std::size_t pickle_bytes = std::size_t{1} << 30;
  /// Most values in the pickle.
  std::size_t values = 5'000'000;
};

/// Reads a file of Python's torch.save, in today's format or the one before
/// torch 1.6. Nothing in the file is run, whatever it asks for. Tensors are
/// read when asked for; the file must not change while a value of it is alive.
///
/// Throws CheckpointError, saying what is wrong, for any other file.
PythonValue read_torch_file(
    const std::filesystem::path& path,
    const TorchFileLimits& limits = {});

/// Writes a file that Python's torch.load(path, weights_only=True) opens if the
/// value holds nothing but data. Tensors that share memory here share it there.
void write_torch_file(
    const std::filesystem::path& path,
    const PythonValue& value);

} // namespace cairn::checkpoints
