#pragma once

#include "io/transfer.h"

#include <cairn/config/zero_config.h>

#include <memory>
#include <string>
#include <vector>

namespace cairn::io::detail {

/// Executes requests. The destructor finishes all of them.
class Engine {
 public:
  Engine() = default;
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Queues the requests and returns before they are done; they begin in this
  /// order.
  virtual void submit(std::vector<Request> requests) = 0;
};

std::unique_ptr<Engine> make_thread_engine(const config::AioConfig& config);

struct UringOrReason {
  std::unique_ptr<Engine> engine; ///< null if the kernel refuses
  std::string why_not;
};
UringOrReason make_uring_engine(const config::AioConfig& config);

} // namespace cairn::io::detail
