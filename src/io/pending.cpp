#include <cairn/io/pending.h>

#include "io/transfer.h"

#include <utility>

namespace cairn::io {

Pending::Pending(std::shared_ptr<detail::Transfer> transfer)
    : transfer_(std::move(transfer)) {}

Pending& Pending::operator=(Pending&& other) noexcept {
  if (this != &other) {
    finish();
    transfer_ = std::move(other.transfer_);
  }
  return *this;
}

Pending::~Pending() {
  finish();
}

void Pending::wait() {
  if (transfer_) {
    transfer_->wait();
  }
}

bool Pending::done() const {
  return !transfer_ || transfer_->done();
}

void Pending::finish() noexcept {
  if (transfer_) {
    transfer_->abandon();
    transfer_.reset();
  }
}

} // namespace cairn::io
