#pragma once

#include <cairn/monitor/event_file.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>

namespace cairn::monitor {

class AppendFile;

/// Writes one JSON object per line. Each moment has a line:
///
///   {"step":20,"lm loss":5.71,"learning rate":0.0003,"time":1753600000.125}
///
/// and each event has a line that names its kind, followed by its details:
///
///   {"step":0,"event":"start","iterations":500,…,"time":1753600000.125}
///
/// `time` is in seconds since 1970, UTC. The scalars of one write() share the
/// step of the first. A value that is not finite becomes null, since JSON has
/// no name for it. An existing file is continued. When a run is resumed from an
/// earlier step, the steps it repeats occur twice, the newer ones last.
class JsonLines : public ScalarSink {
 public:
  using Clock = std::function<std::chrono::system_clock::time_point()>;

  explicit JsonLines(
      const std::filesystem::path& file,
      Clock clock = std::chrono::system_clock::now);
  ~JsonLines() override;

  void write(std::span<const Scalar> scalars) override;
  void flush() override;
  void event(const RunEvent& event) override;

 private:
  std::unique_ptr<AppendFile> file_;
  Clock clock_;
};

} // namespace cairn::monitor
