#include "nn/recompute/filled_again.h"

#include "nn/recompute/forward_state.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/StorageImpl.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace cairn::nn {
namespace {

/// True when the tensor's memory is all its own.
bool is_alone(const at::Tensor& x) {
  return x.is_contiguous() && x.storage_offset() == 0 &&
      x.storage().nbytes() == x.nbytes();
}

/// Forward's autocast, for as long as the scope lasts.
class [[nodiscard]] AutocastScope {
 public:
  explicit AutocastScope(const AutocastState& wanted) { wanted.set(); }
  ~AutocastScope() { before_.set(); }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  AutocastState before_ = AutocastState::now();
};

/// A tensor's memory, which is there or is computed again.
class Memory {
 public:
  Memory(const at::Tensor& x, std::function<at::Tensor()> compute)
      : storage_(x.storage()),
        device_(x.device()),
        bytes_(x.nbytes()),
        compute_(std::move(compute)) {}

  void give_back() {
    c10::StorageImpl& storage = *storage_.unsafeGetStorageImpl();
    storage.set_data_ptr_noswap(c10::DataPtr(nullptr, device_));
    storage.set_nbytes(0);
  }

  void fill() {
    c10::StorageImpl& storage = *storage_.unsafeGetStorageImpl();
    if (storage.nbytes() != 0) {
      return; // backward has come here before
    }
    const at::NoGradGuard without_grad;
    const AutocastScope as_in_forward(autocast_);
    at::Tensor again = compute_().contiguous();
    if (again.nbytes() != bytes_) {
      throw InternalError(
          {.what = "an activation that was computed again has another size",
           .values = fmt::format("{} and {} bytes", again.nbytes(), bytes_)});
    }
    if (!is_alone(again)) {
      again = again.clone();
    }
    c10::StorageImpl& fresh = *again.storage().unsafeGetStorageImpl();
    storage.set_data_ptr_noswap(
        fresh.set_data_ptr(c10::DataPtr(nullptr, device_)));
    storage.set_nbytes(bytes_);
    fresh.set_nbytes(0);
  }

 private:
  c10::Storage storage_;
  c10::Device device_;
  std::size_t bytes_;
  std::function<at::Tensor()> compute_;
  AutocastState autocast_ = AutocastState::now();
};

} // namespace

void fill_again_in_backward(
    const at::Tensor& x,
    const std::vector<at::Tensor>& users,
    std::function<at::Tensor()> compute) {
  const auto leads_back = [&](const at::Tensor& user) {
    return user.defined() && user.requires_grad();
  };
  const bool shared = std::ranges::any_of(users, [&](const at::Tensor& user) {
    return user.defined() && user.is_alias_of(x);
  });
  if (!at::GradMode::is_enabled() || shared || x.numel() == 0 || !is_alone(x) ||
      std::ranges::none_of(users, leads_back)) {
    return;
  }
  const auto memory = std::make_shared<Memory>(x, std::move(compute));
  for (const at::Tensor& user : users) {
    if (leads_back(user)) {
      user.register_hook([memory](const at::Tensor&) { memory->fill(); });
    }
  }
  memory->give_back();
}

} // namespace cairn::nn
