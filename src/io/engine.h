#pragma once

#include "io/transfer.h"

#include <cairn/config/zero_config.h>

#include <memory>
#include <string>
#include <vector>

namespace cairn::io::detail {

/// Works off requests. The destructor finishes all of them.
class Engine {
 public:
  Engine() = default;
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Returns before they are done; begins them in this order.
  virtual void submit(std::vector<Request> requests) = 0;
};

std::unique_ptr<Engine> make_thread_engine(const config::AioConfig& config);

struct UringOrReason {
  std::unique_ptr<Engine> engine; ///< none where the kernel refuses
  std::string why_not;
};
UringOrReason make_uring_engine(const config::AioConfig& config);

} // namespace cairn::io::detail
