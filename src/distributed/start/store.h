#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::distributed {

/// A table of strings that all ranks of a job share. Every call may throw
/// CommError when the table is out of reach.
class Store {
 public:
  virtual ~Store() = default;

  virtual void set(const std::string& key, const std::string& value) = 0;
  /// The value if the key is set now.
  virtual std::optional<std::string> get(const std::string& key) = 0;
  /// Sets the key unless it is set; returns its value afterwards.
  virtual std::string set_once(
      const std::string& key,
      const std::string& value) = 0;
  virtual void erase(const std::string& key) = 0;
  /// Waits for the keys; true when all were set before the time was over.
  virtual bool wait(
      const std::vector<std::string>& keys,
      std::chrono::milliseconds timeout) = 0;
  /// A second connection to the same table, because wait() blocks a connection.
  virtual std::unique_ptr<Store> clone() = 0;
  /// Place of the table, for messages: "host:port".
  virtual std::string address() const = 0;

  /// Lets calls fail that get no answer within `limit`, because the host of the
  /// table is stopped, frozen or cut off. wait() has its own time, and this one
  /// on top.
  virtual void limit_answers(std::chrono::milliseconds limit) = 0;
  /// Ends the connection, from any thread: calls under way and later ones fail.
  virtual void hang_up() = 0;
};

} // namespace cairn::distributed
