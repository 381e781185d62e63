#pragma once

#include <c10/core/ScalarType.h>
#include <cairn/distributed/init_distributed.h>
#include <cairn/distributed/process_mesh.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace cairn::zero {

struct InitOptions {
  /// As initialize() takes them: the job, if it is joined already, and who
  /// shares the parameters; unset: all ranks.
  std::optional<distributed::World> world{};
  std::optional<distributed::ProcessMesh> mesh{};
  /// What floating-point parameters rest in; unset: what they were made in.
  std::optional<at::ScalarType> dtype{};
  /// Elements that may be whole at a time; the one in use always is.
  std::int64_t max_live_parameters = 32'000'000;
  bool enabled = true; ///< false: the scope changes nothing
};

/// Within the scope parameters are born sliced: once a module has made a few
/// more, a rank keeps its slice of the earlier ones, so that a model larger
/// than its memory can be built. Every rank builds the same model; rank 0's
/// values count.
///
///   std::shared_ptr<Net> net;
///   {
///     cairn::zero::Init scope;
///     net = std::make_shared<Net>();
///   }
///   auto [engine, …] = cairn::initialize({.model = net, …});
///
/// A parameter is what requires a gradient. An operator that touches one makes
/// it whole again, in the scope and after it. initialize() moves the slices
/// into its own, bucket by bucket.
class [[nodiscard]] Init {
 public:
  explicit Init(InitOptions options = {});
  /// Throws what went wrong between the ranks in the scope.
  ~Init() noexcept(false);
  Init(const Init&) = delete;
  Init& operator=(const Init&) = delete;

 private:
  class Births;
  std::unique_ptr<Births> births_;
};

} // namespace cairn::zero
