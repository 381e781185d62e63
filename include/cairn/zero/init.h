#pragma once

#include <c10/core/ScalarType.h>
#include <cairn/distributed/init_distributed.h>
#include <cairn/distributed/process_mesh.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace cairn::zero {

struct InitOptions {
  /// The job, if it is joined already, as initialize() takes it.
  std::optional<distributed::World> world{};
  /// The mesh, as initialize() takes it: its data_context() group shares the
  /// parameters, and the ranks along its expert_data axis those of experts.
  /// Unset: all ranks share them.
  std::optional<distributed::ProcessMesh> mesh{};
  /// Type in which floating-point parameters rest; unset: the type they were
  /// made in.
  std::optional<at::ScalarType> dtype{};
  /// Elements that may be whole at a time. A parameter in use is always whole.
  std::int64_t max_live_parameters = 32'000'000;
  bool enabled = true; ///< false: the scope changes nothing
};

/// A scope in which parameters are born sliced. Once a module has made a few
/// more parameters, a rank keeps only its slice of the earlier ones, so that a
/// model larger than its memory can be built. Every rank builds the same model;
/// rank 0's values count.
///
///   std::shared_ptr<Net> net;
///   {
///     cairn::zero::Init scope;
///     net = std::make_shared<Net>();
///   }
///   auto [engine, …] = cairn::initialize({.model = net, …});
///
/// A tensor counts as a parameter when it requires a gradient. An operator that
/// touches a parameter makes it whole again, in the scope and after it.
/// initialize() moves the slices into its own, bucket by bucket.
class [[nodiscard]] Init {
 public:
  explicit Init(InitOptions options = {});
  /// Slices the parameters that are still whole. Throws an error that occurred
  /// between the ranks in the scope.
  ~Init() noexcept(false);
  Init(const Init&) = delete;
  Init& operator=(const Init&) = delete;

 private:
  class Births;
  std::unique_ptr<Births> births_;
};

} // namespace cairn::zero
