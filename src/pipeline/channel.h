#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <cairn/distributed/process_group.h>
#include <cairn/pipeline/executor.h>

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

/// Carries lists of tensors between this stage and another.
class Channel {
 public:
  Channel(
      distributed::ProcessGroup group,
      int peer,
      at::Device device,
      Announce announce,
      Outbox& outbox)
      : group_(std::move(group)),
        peer_(peer),
        device_(device),
        announce_(announce),
        outbox_(&outbox) {}

  /// Sends tensors, announcing them first where needed. Returns at once.
  void send(const Tensors& tensors);
  /// Starts to receive. Waits until the sender has announced the tensors, if it
  /// has to, but not for the tensors themselves. Tensors that required a
  /// gradient on the sender do so here.
  Arriving receive();

  /// send() and receive() without an announcement: the receiver knows the
  /// layouts.
  void send_expected(const Tensors& tensors);
  Arriving receive_expected(const Layouts& layouts);

 private:
  void announce(const Layouts& layouts);
  void hear_announcement();
  std::vector<std::int64_t> receive_words(std::int64_t count);
  void send_words(const std::vector<std::int64_t>& words);

  distributed::ProcessGroup group_;
  int peer_;
  at::Device device_;
  Announce announce_;
  Outbox* outbox_;
  std::optional<Layouts> sent_;     ///< as the other side knows them
  std::optional<Layouts> received_; ///< as the other side announced them
};

} // namespace cairn::pipeline
