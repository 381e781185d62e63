#include "report/internal/report.h"
#include "report/loopback_server.h"
#include "report/page.h"
#include "report/page_data.h"
#include "report/run_set.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::report {

struct LivePage::State {
  explicit State(const Options& options)
      : runs(options.places),
        refresh(options.refresh_seconds),
        server(options.port) {
    look();
  }

  void look() {
    if (runs.update()) {
      ++version;
    }
  }

  std::string data() const {
    const std::chrono::duration<double> now =
        std::chrono::system_clock::now().time_since_epoch();
    return page_data(
        runs.runs(),
        {.made = now.count(), .refresh = refresh, .version = version});
  }

  HttpReply answer(std::string_view target) {
    const std::string_view path = target.substr(0, target.find('?'));
    if (path == "/") {
      look();
      return {
          .type = "text/html; charset=utf-8",
          .body = html_page(runs.title(), data())};
    }
    if (path == "/data.json") {
      look();
      if (target == fmt::format("/data.json?after={}", version)) {
        return {.status = 204};
      }
      return {.type = "application/json", .body = data()};
    }
    return {.status = 404, .body = "there is only /\n"};
  }

  RunSet runs;
  double refresh;
  /// Starts from the clock, so that a page of an earlier process has none of
  /// these versions.
  std::uint64_t version = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(
          std::chrono::system_clock::now().time_since_epoch())
          .count());
  LoopbackServer server;
};

LivePage::LivePage(Options options)
    : state_(std::make_unique<State>(std::move(options))) {}
LivePage::~LivePage() = default;
LivePage::LivePage(LivePage&&) noexcept = default;
LivePage& LivePage::operator=(LivePage&&) noexcept = default;

int LivePage::port() const {
  return state_->server.port();
}

void LivePage::serve(const std::function<bool()>& ended) {
  state_->server.serve(
      [this](std::string_view target) { return state_->answer(target); },
      ended);
}

} // namespace cairn::report
