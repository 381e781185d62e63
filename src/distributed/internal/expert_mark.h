#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

namespace cairn::distributed {

/// A mark on parameters of experts that ranks divide: ranks that share all
/// other parameters have other experts. The layer that makes such a parameter
/// marks it, so that code which cuts parameters as they are made
/// (zero::Init) knows which ranks have the same one. The mark is on the tensor
/// itself, not on its memory: set_data() removes it.
struct ExpertMark : c10::BackendMeta {};

inline void mark_as_expert(const at::Tensor& parameter) {
  parameter.unsafeGetTensorImpl()->set_backend_meta(
      c10::make_intrusive<ExpertMark>());
}

inline bool is_marked_as_expert(const at::Tensor& tensor) {
  return dynamic_cast<ExpertMark*>(
             tensor.unsafeGetTensorImpl()->get_backend_meta()) != nullptr;
}

} // namespace cairn::distributed
