#pragma once

#include <cairn/monitor/run_values.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace cairn::monitor {

/// A point of a curve.
struct Scalar {
  std::string name;
  double value = 0;
  std::int64_t step = 0; ///< iterations, or samples, or tokens

  bool operator==(const Scalar&) const = default;
};

/// A destination for scalars: event files, CSV files, JSON lines.
class ScalarSink {
 public:
  virtual ~ScalarSink() = default;

  /// Takes the values of one moment; they may be held back until flush().
  /// Throws DataError when they cannot be written. They are then lost, but the
  /// file ends with a whole record, so that later calls may succeed.
  virtual void write(std::span<const Scalar> scalars) = 0;
  virtual void flush() = 0;
  /// Takes an event; sinks that hold only numbers ignore it.
  virtual void event(const RunEvent&) {}
};

class AppendFile;

/// A TensorBoard event file, `FOLDER/events.out.tfevents.TIME.HOST.PID.N`. Each
/// run writes a new file; TensorBoard joins the files of a folder, and where a
/// run was resumed from an earlier step it takes the newer points.
class EventFile : public ScalarSink {
 public:
  struct Options {
    std::filesystem::path folder;
    std::int64_t queue_size = 1000; ///< entries held before writing
    std::chrono::seconds longest_hold{30};
    std::function<std::chrono::system_clock::time_point()> clock =
        std::chrono::system_clock::now;
  };
  explicit EventFile(Options options);
  ~EventFile() override; ///< writes the held entries, if possible

  void write(std::span<const Scalar> scalars) override;
  void text(std::int64_t step, std::string_view name, std::string_view text);
  void flush() override;

  const std::filesystem::path& path() const noexcept;

 private:
  void took(std::int64_t entries);

  Options options_;
  std::unique_ptr<AppendFile> file_;
  std::int64_t held_ = 0;
  std::chrono::system_clock::time_point last_flush_;
};

} // namespace cairn::monitor
