#include "report/internal/report.h"

#include "http/internal/server.h"
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
        server({.port = options.port}) {
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

  http::Reply answer(const http::Request& request) {
    if (request.method != "GET") {
      return {.status = 405, .body = "only GET and HEAD\n"};
    }
    if (request.path == "/") {
      look();
      return {
          .type = "text/html; charset=utf-8",
          .body = html_page(runs.title(), data())};
    }
    if (request.path == "/data.json") {
      look();
      if (request.query == fmt::format("after={}", version)) {
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
  http::Server server;
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
      [this](
          const http::Request& request,
          const std::shared_ptr<http::Exchange>& exchange) {
        exchange->reply(state_->answer(request));
      },
      ended);
}

} // namespace cairn::report
