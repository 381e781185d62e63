#pragma once

#include <cairn/monitor/event_file.h>

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>

namespace cairn::monitor {

class AppendFile;

/// DeepSpeed's CSV files: one per curve, `FOLDER/Train_Samples_lr.csv`, with
/// the lines `step,lr`, `32,0.001`, … An existing file is continued.
class CsvFiles : public ScalarSink {
 public:
  /// Throws DataError when the folder cannot be made.
  explicit CsvFiles(std::filesystem::path folder);
  ~CsvFiles() override;

  void write(std::span<const Scalar> scalars) override;
  void flush() override;

 private:
  AppendFile& file_of(const std::string& name);

  std::filesystem::path folder_;
  std::map<std::string, std::unique_ptr<AppendFile>> files_; ///< by curve
};

} // namespace cairn::monitor
