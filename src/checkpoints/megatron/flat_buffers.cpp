// Megatron's distributed optimizer keeps its states in flat buffers without
// names.

#include "checkpoints/megatron/optimizer_contents.h"
#include "checkpoints/tensors/lazy_operations.h"

#include <ATen/Functions.h>
#include <c10/util/accumulate.h>

#include <cstddef>

namespace cairn::checkpoints::megatron {

namespace {

constexpr std::int64_t alignment = 64;
/// Larger parameters are not compared with their copies.
constexpr std::int64_t most_compared = 1 << 16;

} // namespace

std::int64_t flat_beginning(std::int64_t end) {
  return (end + alignment - 1) / alignment * alignment;
}

bool add_flat(
    const std::vector<OrderedParameter>& order,
    const std::vector<LazyTensor>& buffers,
    const std::vector<std::int64_t>& sizes,
    const std::filesystem::path& file,
    RankTensors& rank) {
  std::size_t bucket = 0;
  std::int64_t at = 0;
  for (auto parameter = order.rbegin(); parameter != order.rend();
       ++parameter) {
    const std::int64_t count = c10::multiply_integers(parameter->shape);
    // A bucket ends with a parameter, or where the next one would begin.
    if (bucket < sizes.size() &&
        (at == sizes[bucket] || flat_beginning(at) == sizes[bucket])) {
      ++bucket;
      at = 0;
    }
    at = flat_beginning(at);
    if (bucket == sizes.size() || bucket >= buffers.size() ||
        at + count > sizes[bucket] || buffers[bucket].shape.size() != 1 ||
        sizes[bucket] > buffers[bucket].shape[0]) {
      return false;
    }
    add_tensor(
        rank,
        parameter->name,
        reshaped(elements(buffers[bucket], at, at + count), parameter->shape),
        file);
    at += count;
  }
  return bucket + 1 == sizes.size() &&
      (at == sizes[bucket] || flat_beginning(at) == sizes[bucket]);
}

bool rounds_to(const RankTensors& masters, const RankTensors& parameters) {
  for (const auto& [name, master] : masters.tensors) {
    const auto found = parameters.tensors.find(name);
    if (found == parameters.tensors.end() ||
        c10::multiply_integers(master.tensor.shape) > most_compared) {
      continue;
    }
    const LazyTensor& parameter = found->second.tensor;
    if (parameter.shape != master.tensor.shape ||
        !master.tensor.load().to(parameter.type).equal(parameter.load())) {
      return false;
    }
  }
  return true;
}

std::int64_t step_in(const std::optional<PythonValue>& value) {
  using Kind = PythonValue::Kind;
  if (!value) {
    return 0;
  }
  if (value->is(Kind::integer)) {
    return value->integer();
  }
  const bool number = value->is(Kind::tensor) &&
      c10::multiply_integers(value->stored().sizes) == 1;
  return number ? value->tensor().to(at::kLong).item<std::int64_t>() : 0;
}

} // namespace cairn::checkpoints::megatron
