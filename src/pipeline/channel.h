#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <cairn/distributed/process_group.h>
#include <cairn/pipeline/pipeline_module.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace cairn::pipeline {

/// The facts that the receiver must know before the tensor arrives.
struct TensorLayout {
  at::ScalarType dtype{};
  bool requires_grad = false;
  std::vector<std::int64_t> sizes;
  bool operator==(const TensorLayout&) const = default;
};
using Layouts = std::vector<TensorLayout>;

Layouts layouts_of(const Tensors& tensors);

/// Tensors on their way here.
class Arriving {
 public:
  Arriving(Tensors tensors, std::vector<distributed::Pending> pending)
      : tensors_(std::move(tensors)), pending_(std::move(pending)) {}
  Tensors wait();

 private:
  Tensors tensors_;
  std::vector<distributed::Pending> pending_;
};

/// Messages that are leaving; keeps their tensors until they are gone.
class Outbox {
 public:
  void add(distributed::Pending pending);
  /// Waits for all messages.
  void finish();

 private:
  std::deque<distributed::Pending> pending_;
};

/// The two ways between stages. On GPUs the messages of a group go one after
/// the other, so activations and gradients, which do not wait for each other,
/// have a group each.
struct Ways {
  distributed::ProcessGroup activations;
  distributed::ProcessGroup gradients; ///< of the same ranks
};

/// Carries lists of tensors between this stage and another.
class Channel {
 public:
  Channel(
      Ways ways,
      int peer,
      at::Device device,
      Announce announce,
      Outbox& outbox)
      : ways_(std::move(ways)),
        peer_(peer),
        device_(device),
        announce_(announce),
        outbox_(&outbox) {}

  /// Begins a batch, on both sides.
  void begin_batch();

  /// Sends tensors, announcing them first where needed. Returns at once.
  void send(const Tensors& tensors);
  /// Starts to receive. Waits until the sender has announced the tensors, if it
  /// has to, but not for the tensors themselves. Tensors that required a
  /// gradient on the sender do so here.
  Arriving receive();

  /// send() and receive() for gradients, which need no announcement: the
  /// receiver knows their layouts.
  void send_gradients(const Tensors& tensors);
  Arriving receive_gradients(const Layouts& layouts);

 private:
  void announce(const Layouts& layouts);
  void hear_announcement();
  void put(const distributed::ProcessGroup& way, const Tensors& tensors);
  Arriving take(const distributed::ProcessGroup& way, const Layouts& layouts);
  std::vector<std::int64_t> receive_words(std::int64_t count);
  void send_words(const std::vector<std::int64_t>& words);

  Ways ways_;
  int peer_;
  at::Device device_;
  Announce announce_;
  Outbox* outbox_;
  std::optional<Layouts> sent_;     ///< as the other side knows them
  std::optional<Layouts> received_; ///< as the other side announced them
  bool sent_in_batch_ = false;
  bool received_in_batch_ = false;
};

} // namespace cairn::pipeline
