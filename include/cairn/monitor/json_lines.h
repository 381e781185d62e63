#pragma once

#include <cairn/monitor/scalar_sink.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>

namespace cairn::monitor {

class AppendFile;

/// One JSON object per line and moment:
///
///   {"step":20,"lm loss":5.71,"learning rate":0.0003,"time":1753600000.125}
///
/// and one per event, which names its kind and then what there is to say:
///
///   {"step":0,"event":"start","iterations":500,…,"time":1753600000.125}
///
/// `time` is in seconds since 1970, UTC. Scalars of one write() share the step
/// of the first. What is not finite is null, as JSON has no name for it. A file
/// that is there is continued; a run that was resumed has the steps it went
/// back by twice, the newer last.
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
