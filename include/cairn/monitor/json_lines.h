#pragma once

#include <cairn/monitor/scalar_sink.h>

#include <filesystem>
#include <memory>
#include <span>

namespace cairn::monitor {

class AppendFile;

/// One JSON object per line and moment:
///
///   {"step":20,"lm loss":5.71,"learning rate":0.0003}
///
/// Scalars of one write() share the step of the first. What is not finite is
/// null, as JSON has no name for it. A file that is there is continued; a run
/// that was resumed has the steps it went back by twice, the newer last.
class JsonLines : public ScalarSink {
 public:
  explicit JsonLines(const std::filesystem::path& file);
  ~JsonLines() override;

  void write(std::span<const Scalar> scalars) override;
  void flush() override;

 private:
  std::unique_ptr<AppendFile> file_;
};

} // namespace cairn::monitor
