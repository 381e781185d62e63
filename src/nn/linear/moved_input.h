#pragma once

#include <ATen/DimVector.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <cairn/distributed/process_group.h>
#include <cairn/nn/checkpoint.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace cairn::nn {

/// An input of a checkpoint that waits for backward in another form: on the
/// CPU, as a part, or both.
class MovedInput {
 public:
  /// True when the options ask for it and the input is an activation.
  static bool suits(const at::Tensor& input, const CheckpointOptions& options);

  MovedInput(
      const at::Tensor& input,
      const CheckpointOptions& options,
      std::size_t position);

  /// The input as it was, on its device, without a history. If it was kept in
  /// parts, every rank of the group calls this.
  at::Tensor restore() const;

 private:
  void copy(const at::Tensor& part);

  c10::Device device_;
  at::DimVector sizes_;
  at::DimVector strides_;
  std::int64_t numel_;
  std::optional<distributed::ProcessGroup> group_;
  at::Tensor rest_;                  // [elements of this rank's part]
  std::optional<c10::Event> copied_; // set where the copy runs beside the host
};

} // namespace cairn::nn
