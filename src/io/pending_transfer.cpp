#include <cairn/io/io_queue.h>

#include "io/transfer.h"

#include <utility>

namespace cairn::io {

PendingTransfer::PendingTransfer(std::shared_ptr<detail::Transfer> transfer)
    : transfer_(std::move(transfer)) {}

PendingTransfer& PendingTransfer::operator=(PendingTransfer&& other) noexcept {
  if (this != &other) {
    finish();
    transfer_ = std::move(other.transfer_);
  }
  return *this;
}

PendingTransfer::~PendingTransfer() {
  finish();
}

void PendingTransfer::wait() {
  if (transfer_) {
    transfer_->wait();
  }
}

bool PendingTransfer::done() const {
  return !transfer_ || transfer_->done();
}

void PendingTransfer::finish() noexcept {
  if (transfer_) {
    transfer_->abandon();
    transfer_.reset();
  }
}

} // namespace cairn::io
