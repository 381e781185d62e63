#pragma once

#include "corpus/download/http_get.h"
#include "corpus/internal/fetch_pages.h"
#include "corpus/pages/page_results.h"
#include "corpus/pages/server_queue.h"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::corpus {

/// Fetches pages, one at a time.
class PageFetcher {
 public:
  PageFetcher(const PageOptions& options, PageResults& results);

  /// What follows a request.
  struct Next {
    std::chrono::milliseconds pause{0}; ///< for the server
    std::optional<PageTask> again{};    ///< empty: the address is done
  };

  /// Makes the request of a turn, or does without it, and hands what comes out
  /// to the results.
  Next fetch(const PageTask& task, PageServer& server);

 private:
  HttpRequest request_for(const std::string& address) const;
  std::optional<Next> read_rules(const PageTask& task, PageServer& server);
  Next fetch_page(const PageTask& task, PageServer& server);
  Next follow(const PageTask& task, const std::string& to);
  Next fail(const PageTask& task, PageFailure failure, std::string_view reason);
  Next after_trouble(
      const PageTask& task,
      PageServer& server,
      const HttpResult& result,
      std::string_view prefix);
  std::chrono::milliseconds pause_for(const PageServer& server) const;

  const PageOptions& options_;
  PageResults& results_;
  std::string robot_; ///< our name in robots.txt
  HttpClient client_;
};

} // namespace cairn::corpus
