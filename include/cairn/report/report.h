#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::report {

/// Logs that `--log-jsonl` wrote, or folders that hold some.
using Places = std::vector<std::filesystem::path>;

/// Where the page of these places goes unless told otherwise: `report.html` in
/// a folder, beside a log under its name, here for several places.
std::filesystem::path default_page(const Places& places);

struct Written {
  std::filesystem::path page;
  std::size_t runs = 0;
};

/// Draws the runs on one HTML page that needs nothing but itself. Throws
/// DataError where there is no log, or none with a measurement, and where
/// `page` is a file that is no such page.
Written write_report(const Places& places, const std::filesystem::path& page);

/// The same page on this machine alone, at http://127.0.0.1:PORT/, following
/// runs that go on.
class LivePage {
 public:
  struct Options {
    Places places;
    int port = 0; ///< 0: any that is free
    double refresh_seconds = 2;
  };
  /// Throws DataError for places that are not there, ConfigError for a port
  /// that cannot be had. Places without a log are waited for.
  explicit LivePage(Options options);
  ~LivePage();
  LivePage(LivePage&&) noexcept;
  LivePage& operator=(LivePage&&) noexcept;

  int port() const;
  /// Answers until `ended`, which is asked a few times a second.
  void serve(const std::function<bool()>& ended);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace cairn::report
