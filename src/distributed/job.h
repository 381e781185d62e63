#pragma once

#include "group_backend.h"
#include "store.h"
#include "watchdog.h"

#include <cairn/base/log.h>
#include <cairn/distributed/environment.h>

#include <chrono>
#include <memory>

namespace cairn::distributed {

/// What all groups of one process share. Members are destroyed from the last
/// to the first: the watchdog says goodbye while the store is still there.
struct Job {
  Environment environment;
  std::chrono::milliseconds start_timeout{};
  std::unique_ptr<Store> store;
  std::unique_ptr<BackendFactory> factory;
  std::shared_ptr<Watchdog> watchdog;
};

} // namespace cairn::distributed
