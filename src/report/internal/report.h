#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::report {

/// Logs that `--log-jsonl` wrote, or folders that hold such logs.
using Places = std::vector<std::filesystem::path>;

/// The default path of the page: `report.html` in a folder, the log's name with
/// .html beside a single log, `report.html` in the working folder for several
/// places.
std::filesystem::path default_page(const Places& places);

struct Written {
  std::filesystem::path page;
  std::size_t runs = 0;
};

/// Draws the runs on one self-contained HTML page. Throws DataError if there is
/// no log, or none with a measurement, and if `page` is a file that is no
/// report.
Written write_report(const Places& places, const std::filesystem::path& page);

/// Serves the page to this machine only, at http://127.0.0.1:PORT/, and follows
/// runs that are still going on.
class LivePage {
 public:
  struct Options {
    Places places;
    int port = 0; ///< 0: any free port
    double refresh_seconds = 2;
  };
  /// Throws DataError for places that do not exist, and ConfigError for a port
  /// that cannot be used. Places without a log are allowed; their logs may
  /// appear later.
  explicit LivePage(Options options);
  ~LivePage();
  LivePage(LivePage&&) noexcept;
  LivePage& operator=(LivePage&&) noexcept;

  int port() const;
  /// Answers requests until `ended` returns true; it is called a few times a
  /// second.
  void serve(const std::function<bool()>& ended);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace cairn::report
