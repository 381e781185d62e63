#pragma once

#include "distributed/internal/comms_log.h"
#include "engine/build/job.h"

#include <memory>

namespace cairn::inline engine {

/// The log of calls between ranks that the JSON's `comms_logger` asks for. Rank
/// 0 keeps it while it lives, and logs a table of all calls at its end.
class CallTimes {
 public:
  explicit CallTimes(const Job& job);
  ~CallTimes();
  CallTimes(const CallTimes&) = delete;
  CallTimes& operator=(const CallTimes&) = delete;

 private:
  const Job& job_;
  std::shared_ptr<distributed::CommsLog> log_; ///< null: nobody asked
};

} // namespace cairn::engine
