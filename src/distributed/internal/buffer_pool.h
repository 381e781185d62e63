#pragma once

#include <cairn/distributed/process_group.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace cairn::distributed {

/// Memory of a GPU that a communication library knows as its own, and sends
/// from without a copy.
class BufferPool {
 public:
  virtual ~BufferPool() = default;

  /// Makes the tensors that this thread makes on the GPU from now on come from
  /// the pool, until end().
  virtual void begin() = 0;
  virtual void end() = 0;
  /// Bytes that the pool holds.
  virtual std::int64_t bytes() const = 0;
};

/// Makes a pool for tensors that any of the groups sends; groups of one rank
/// are left out. Null where the groups' library has no such memory: all but
/// NCCL. The groups outlive the pool. Each rank makes its own pool, with groups
/// that it is in.
std::shared_ptr<BufferPool> make_buffer_pool(
    const std::vector<ProcessGroup>& groups);

/// While it lives, tensors that this thread makes on the GPU come from a pool.
/// Does nothing if the pool is null.
class BufferScope {
 public:
  explicit BufferScope(BufferPool* pool) : pool_(pool) {
    if (pool_ != nullptr) {
      pool_->begin();
    }
  }
  ~BufferScope() {
    if (pool_ != nullptr) {
      pool_->end();
    }
  }
  BufferScope(const BufferScope&) = delete;
  BufferScope& operator=(const BufferScope&) = delete;

 private:
  BufferPool* pool_;
};

} // namespace cairn::distributed
