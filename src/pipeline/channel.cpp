#include "pipeline/channel.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <c10/core/ScalarType.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>
#include <utility>

namespace cairn::pipeline {
namespace {

constexpr std::int64_t as_before = 0;
constexpr std::int64_t most_words = 1 << 16;
constexpr std::int64_t most_dims = 64;

std::vector<std::int64_t> words_of(const Layouts& layouts) {
  std::vector<std::int64_t> words;
  for (const TensorLayout& each : layouts) {
    words.push_back(static_cast<std::int64_t>(each.dtype));
    words.push_back(each.requires_grad ? 1 : 0);
    words.push_back(static_cast<std::int64_t>(each.sizes.size()));
    words.insert(words.end(), each.sizes.begin(), each.sizes.end());
  }
  return words;
}

[[noreturn]] void refuse_words(int peer) {
  throw CommError(
      {.what = "an announcement of tensors that makes no sense",
       .where = fmt::format("pipeline, from stage {}", peer),
       .remedy = "all stages must run the same program"});
}

Layouts layouts_from(std::span<const std::int64_t> words, int peer) {
  Layouts layouts;
  while (!words.empty()) {
    if (words.size() < 3 || words[0] < 0 ||
        words[0] >= static_cast<std::int64_t>(at::ScalarType::NumOptions) ||
        words[2] < 0 || words[2] > most_dims ||
        words.size() < 3 + static_cast<std::size_t>(words[2])) {
      refuse_words(peer);
    }
    const auto dims = static_cast<std::size_t>(words[2]);
    const auto sizes = words.subspan(3, dims);
    layouts.push_back(
        {static_cast<at::ScalarType>(words[0]),
         words[1] != 0,
         {sizes.begin(), sizes.end()}});
    words = words.subspan(3 + dims);
  }
  return layouts;
}

std::string text_of(const Layouts& layouts) {
  std::vector<std::string> texts;
  for (const TensorLayout& each : layouts) {
    texts.push_back(fmt::format(
        "{} [{}]",
        c10::toString(each.dtype),
        fmt::join(each.sizes, ", ")));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

} // namespace

Layouts layouts_of(const Tensors& tensors) {
  Layouts layouts;
  for (const at::Tensor& each : tensors) {
    if (!each.defined()) {
      throw UsageError(
          {.what = "a pipeline stage cannot send an undefined tensor",
           .remedy = "let its last layer give only tensors that are there"});
    }
    layouts.push_back(
        {each.scalar_type(), each.requires_grad(), each.sizes().vec()});
  }
  return layouts;
}

Tensors Arriving::wait() {
  for (distributed::Pending& each : pending_) {
    each.wait();
  }
  pending_.clear();
  return std::move(tensors_);
}

void Outbox::add(distributed::Pending pending) {
  while (!pending_.empty() && pending_.front().done()) {
    pending_.pop_front();
  }
  pending_.push_back(std::move(pending));
}

void Outbox::finish() {
  for (distributed::Pending& each : pending_) {
    each.wait();
  }
  pending_.clear();
}

void Channel::begin_batch() {
  sent_in_batch_ = received_in_batch_ = false;
}

void Channel::send(const Tensors& tensors) {
  announce(layouts_of(tensors));
  put(ways_.activations, tensors);
}

void Channel::announce(const Layouts& layouts) {
  const bool in_batch = std::exchange(sent_in_batch_, true);
  const bool silent = sent_ &&
      (announce_ == Announce::once ||
       (announce_ == Announce::each_batch && in_batch));
  if (sent_ == layouts) {
    if (!silent) {
      send_words({as_before});
    }
    return;
  }
  if (silent) {
    throw UsageError(
        {.what = "the activations between two pipeline stages changed",
         .where = fmt::format("to stage {}", peer_),
         .values =
             fmt::format("{}; before {}", text_of(layouts), text_of(*sent_)),
         .remedy = "keep batch and sequence length, or announce changes "
                   "(Announce::each_message)"});
  }
  const std::vector<std::int64_t> words = words_of(layouts);
  send_words({static_cast<std::int64_t>(words.size()) + 1});
  send_words(words);
  sent_ = layouts;
}

void Channel::hear_announcement() {
  const bool in_batch = std::exchange(received_in_batch_, true);
  if (received_ &&
      (announce_ == Announce::once ||
       (announce_ == Announce::each_batch && in_batch))) {
    return;
  }
  const std::int64_t count = receive_words(1)[0];
  if (count == as_before && received_) {
    return;
  }
  if (count < 1 || count > most_words) {
    refuse_words(peer_);
  }
  received_ = layouts_from(receive_words(count - 1), peer_);
}

Arriving Channel::receive() {
  hear_announcement();
  return take(ways_.activations, *received_);
}

void Channel::send_words(const std::vector<std::int64_t>& words) {
  outbox_->add(
      ways_.activations.send(at::tensor(words, at::kLong).to(device_), peer_));
}

std::vector<std::int64_t> Channel::receive_words(std::int64_t count) {
  const at::Tensor words =
      ways_.activations
          .recv(
              at::empty(
                  {count},
                  at::TensorOptions().dtype(at::kLong).device(device_)),
              peer_)
          .wait()
          .cpu();
  const auto* data = words.const_data_ptr<std::int64_t>();
  return {data, data + count};
}

void Channel::send_gradients(const Tensors& tensors) {
  put(ways_.gradients, tensors);
}

Arriving Channel::receive_gradients(const Layouts& layouts) {
  return take(ways_.gradients, layouts);
}

void Channel::put(
    const distributed::ProcessGroup& way,
    const Tensors& tensors) {
  for (const at::Tensor& each : tensors) {
    outbox_->add(way.send(each.detach().contiguous(), peer_));
  }
}

Arriving Channel::take(
    const distributed::ProcessGroup& way,
    const Layouts& layouts) {
  Tensors tensors;
  std::vector<distributed::Pending> pending;
  for (const TensorLayout& each : layouts) {
    tensors.push_back(at::empty(
        each.sizes,
        at::TensorOptions().dtype(each.dtype).device(device_)));
    pending.push_back(way.recv(tensors.back(), peer_));
    tensors.back().set_requires_grad(each.requires_grad);
  }
  return Arriving(std::move(tensors), std::move(pending));
}

} // namespace cairn::pipeline
