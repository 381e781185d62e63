#pragma once

#include "zero/gather/operator_observer.h"

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace cairn::zero {

using WeakTensor =
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

/// Holds parameters between their birth in a scope of zero::Init and
/// initialize(): each is whole while operators use it, and a slice on every
/// rank otherwise. All ranks run the same operators on parameters, so their
/// collectives match.
///
/// A parameter's slice hangs on its own storage and lives as long as that
/// storage; the nursery lives as long as any slice.
class Nursery final : public std::enable_shared_from_this<Nursery>,
                      private UseListener {
 public:
  struct Options {
    distributed::ProcessGroup group;
    /// The ranks that have the same experts.
    distributed::ProcessGroup experts;
    /// Device on which the groups want their tensors.
    at::Device wire = at::kCPU;
    std::int64_t max_live = 0; ///< elements that may be whole at a time
    /// Type in which floating-point parameters rest; unset: their own type.
    std::optional<at::ScalarType> dtype;
  };
  explicit Nursery(Options options);
  ~Nursery();

  /// Ranks that hold the same parameter. Parameters of experts are marked
  /// (distributed::mark_as_expert()).
  enum class Sharers { all, of_experts };

  /// Lets `parameter` rest from now on. A parameter that is not the whole of
  /// its memory, or whose memory is here already, is left as it is.
  void take(const at::Tensor& parameter);
  /// Slices the longest unused parameters, until the limit is kept.
  void make_room() noexcept;
  /// Slices everything. Throws the errors of rethrow().
  void slice_all();
  /// Throws an error that occurred while an operator ran: libtorch swallows it
  /// there.
  void rethrow();

  /// True when the tensor's memory belongs to a nursery.
  static bool holds(const at::Tensor& tensor);
  /// True when a nursery cuts the tensor's memory over ranks that need not have
  /// the same experts.
  static bool holds_for_all(const at::Tensor& tensor);
  /// Ends the nursery's care for a parameter, before the parameter gets memory
  /// elsewhere: the nursery does not follow it there. Throws the errors of
  /// rethrow().
  static void let_go(const at::Tensor& parameter);

 private:
  struct Child;
  static void delete_child(void* child);
  static Child* child_of(const at::Tensor& tensor);

  void before_use(int key, std::int64_t offset) noexcept override;
  void after_use(int key) noexcept override;

  void take(const at::Tensor& parameter, Sharers sharers);
  void shrink_to(std::int64_t elements, std::size_t kept);
  void follow_moved();
  void rest(Child& child);
  void make_whole(Child& child);
  void slice(Child& child);
  at::Tensor values_of_first_rank(Child& child);
  void forget(const Child& child);
  void set_memory(Child& child, c10::DataPtr memory);

  Options options_;
  /// Recursive: slicing a parameter can end the life of another's storage,
  /// which calls back here.
  std::recursive_mutex mutex_;
  std::map<int, Child*> children_;
  std::vector<Child*> live_; ///< the last used at the end
  std::int64_t live_elements_ = 0;
  struct Moved {
    WeakTensor tensor;
    Sharers sharers;
  };
  std::vector<Moved> moved_; ///< parameters that got other memory
  int next_key_ = 0;
  std::exception_ptr failure_;
  OperatorObserver observer_; ///< last: it calls the members above
};

} // namespace cairn::zero
