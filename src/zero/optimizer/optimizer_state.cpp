#include "zero/optimizer/optimizer_state.h"

#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

#include <sstream>

namespace cairn::zero {

namespace {

/// Turns a written archive into a readable one; only a stream leads from one to
/// the other.
torch::serialize::InputArchive readable(
    torch::serialize::OutputArchive& written) {
  std::stringstream bytes;
  written.save_to(bytes);
  torch::serialize::InputArchive result;
  result.load_from(bytes);
  return result;
}

} // namespace

std::optional<StateValues> values_of(
    const torch::optim::OptimizerParamState& state) {
  torch::serialize::OutputArchive written;
  StateValues values;
  try {
    state.serialize(written);
  } catch (const c10::Error&) {
    // libtorch throws for states that have no serialize().
    return std::nullopt;
  }
  torch::serialize::InputArchive archive = readable(written);
  for (const std::string& name : archive.keys()) {
    archive.read(name, values[name]);
  }
  return values;
}

void set_values(
    torch::optim::OptimizerParamState& state,
    const StateValues& values) {
  torch::serialize::OutputArchive written;
  for (const auto& [name, value] : values) {
    written.write(name, value);
  }
  torch::serialize::InputArchive archive = readable(written);
  state.serialize(archive);
}

} // namespace cairn::zero
