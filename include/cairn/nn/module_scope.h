#pragma once

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>

#include <string>
#include <string_view>

namespace cairn::nn {

/// The name of a module scope in libtorch's profiler, before the module's own.
inline constexpr std::string_view module_scope_prefix = "nn.Module: ";

/// Marks what is computed while it lives as the work of one module, for traces
/// of `--profile`. Scopes nest: "attention" within "decoder.blocks.0" is shown
/// as "decoder.blocks.0.attention". Costs nanoseconds while nothing is traced.
///
///   const nn::ModuleScope scope("attention");
class ModuleScope {
 public:
  explicit ModuleScope(std::string_view name)
      : record_(at::RecordScope::USER_SCOPE) {
    if (record_.isActive()) {
      // The number tells which nodes of autograd are made within the scope, and
      // so whose backward pass an operator belongs to.
      record_.before(
          std::string(module_scope_prefix).append(name),
          static_cast<std::int64_t>(at::sequence_number::peek()));
    }
  }
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  at::RecordFunction record_;
};

} // namespace cairn::nn
