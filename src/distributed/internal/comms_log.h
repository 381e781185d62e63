#pragma once

#include <cairn/base/log.h>
#include <cairn/distributed/collective_record.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::distributed {

class World;

/// The calls of one rank with their sizes and times, as DeepSpeed's
/// `comms_logger` keeps them. Safe to use from any thread.
class CommsLog {
 public:
  struct Options {
    bool verbose = false; ///< a line for each call when it ends
    bool all = true;      ///< every kind of call; else those in `operations`
    /// Kinds of calls, by our names or by those of PyTorch's functions.
    std::vector<std::string> operations{};
    bool with_site = false; ///< the place of the call belongs to its name
    Logger logger{};
  };
  /// Throws ConfigError for a kind of call that there is none of.
  explicit CommsLog(Options options);

  /// A call that has ended.
  struct Call {
    std::string operation;           ///< "all_gather"
    std::string site;                ///< "train.cpp:88"
    std::int64_t bytes = 0;          ///< of the message, see message_bytes()
    std::int64_t sent = 0;           ///< by this rank, see bytes_sent()
    std::optional<double> seconds{}; ///< unset: not known
  };
  bool takes(std::string_view operation) const;
  void add(const Call& call);

  /// A table of all calls so far, by kind and size.
  std::string summary() const;

 private:
  struct Sums {
    std::int64_t calls = 0;
    std::int64_t timed = 0;
    std::int64_t sent = 0; ///< by calls that were timed
    double seconds = 0;
  };

  Options options_;
  mutable std::mutex mutex_;
  std::map<std::string, std::map<std::int64_t, Sums>> calls_;
};

/// The size of a call's message: the whole of which every rank brings or gets a
/// part. `bytes` are those that a rank brings.
std::int64_t message_bytes(
    std::string_view operation,
    std::int64_t bytes,
    int ranks);

/// Lets the log have the calls that this rank makes from now on; null ends
/// that. While there is a log, collectives over NCCL are waited for one by one.
/// NCCL's sends and receives are counted without times, since waiting for them
/// could make ranks wait for each other.
void log_calls(const World& world, std::shared_ptr<CommsLog> log);

} // namespace cairn::distributed
