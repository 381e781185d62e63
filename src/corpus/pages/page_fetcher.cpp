#include "corpus/pages/page_fetcher.h"

#include <cairn/base/error.h>

#include "corpus/download/download_attempts.h"
#include "corpus/internal/web_address.h"
#include "corpus/pages/page_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

namespace cairn::corpus {
namespace {

/// Thrown by a PageSink for an answer that is no page.
struct NoPage {
  PageFailure failure;
  std::string reason;
};

class PageSink : public HttpSink {
 public:
  explicit PageSink(std::size_t largest) : largest_(largest) {}

  void begin(const HttpHead& head) override {
    type_ = head.content_type;
    bytes_.clear();
    if (!is_readable_type(type_)) {
      throw NoPage{PageFailure::type, type_};
    }
  }

  void write(std::span<const char> bytes) override {
    if (bytes.size() > largest_ - bytes_.size()) {
      throw NoPage{
          PageFailure::too_large,
          fmt::format("it has more than {} bytes", largest_)};
    }
    bytes_.append(bytes.data(), bytes.size());
  }

  const std::string& bytes() const { return bytes_; }
  const std::string& type() const { return type_; }

 private:
  std::size_t largest_;
  std::string bytes_;
  std::string type_;
};

/// Takes the beginning of a robots.txt, as much of it as counts.
class RobotsSink : public HttpSink {
 public:
  struct Enough {};

  void begin(const HttpHead&) override {}
  void write(std::span<const char> bytes) override {
    constexpr std::size_t limit = 500 << 10; // RFC 9309
    bytes_.append(bytes.data(), std::min(bytes.size(), limit - bytes_.size()));
    if (bytes_.size() == limit) {
      throw Enough{};
    }
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

PageFailure failure_of(const HttpResult& result) {
  return result.end == HttpEnd::unreachable ? PageFailure::unreachable
      : result.private_network              ? PageFailure::address
      : result.too_slow                     ? PageFailure::too_slow
      : result.head.status >= 400           ? PageFailure::status
      : result.head.status >= 300           ? PageFailure::redirect
                                            : PageFailure::connection;
}

/// The name of the robot in "name/1.0 (about it)".
std::string first_word(std::string_view text) {
  return std::string(text.substr(0, text.find_first_of("/ ;(\t")));
}

} // namespace

PageFetcher::PageFetcher(const PageOptions& options, PageResults& results)
    : options_(options),
      results_(results),
      robot_(first_word(options.user_agent)) {}

HttpRequest PageFetcher::request_for(const std::string& address) const {
  HttpRequest request = http_request(address, options_.transfer);
  request.longest_time = options_.longest_time;
  request.user_agent = options_.user_agent;
  request.compressed = true;
  request.public_only = !options_.private_networks;
  return request;
}

PageFetcher::Next PageFetcher::fetch(const PageTask& task, PageServer& server) {
  // A server that does not answer need not be asked a thousand times.
  constexpr int most_given_up = 3;
  if (server.given_up >= most_given_up) {
    fail(task, server.failure, server.trouble);
    return {};
  }
  Next next;
  if (options_.robots && !server.rules) {
    if (auto trouble = read_rules(task, server)) {
      return *trouble;
    }
    next.pause = pause_for(server); // that was a request, too
  }
  if (options_.robots && !server.rules->allow(path_of(task.now))) {
    fail(task, PageFailure::robots, "is forbidden there");
    return next;
  }
  if (next.pause.count() > 0) {
    next.again = task;
    return next;
  }
  return fetch_page(task, server);
}

/// Reads the server's robots.txt; returns what follows if that is impossible.
std::optional<PageFetcher::Next> PageFetcher::read_rules(
    const PageTask& task,
    PageServer& server) {
  constexpr int redirects = 5; // RFC 9309
  HttpRequest request = request_for(address_beside(task.now, "/robots.txt"));
  request.redirects = redirects;
  RobotsSink sink;
  HttpResult result;
  try {
    result = client_.get(request, sink);
  } catch (const RobotsSink::Enough&) {
  }
  if (result.head.status != 0) {
    results_.answered();
  }
  const long status = result.head.status;
  const bool unavailable = status >= (result.answered ? 200 : 300) &&
      status < 500 && status != 429 && status != 408 && status != 425;
  if (result.end == HttpEnd::complete) {
    server.rules.emplace(sink.bytes(), robot_);
  } else if (unavailable) {
    server.rules.emplace(); // there is none: all is allowed
  } else {
    return after_trouble(task, server, result, "robots.txt: ");
  }
  server.given_up = 0;
  return std::nullopt;
}

PageFetcher::Next PageFetcher::fetch_page(
    const PageTask& task,
    PageServer& server) {
  HttpRequest request = request_for(task.now);
  request.redirects = 0; // the next server has a turn and rules of its own
  PageSink sink(options_.largest_page);
  Next next{.pause = pause_for(server)};
  try {
    const HttpResult result = client_.get(request, sink);
    if (result.head.status != 0) {
      results_.answered();
    }
    if (result.answered) {
      server.given_up = 0;
    }
    if (!result.redirect.empty()) {
      next.again = follow(task, result.redirect).again;
      return next;
    }
    if (result.end != HttpEnd::complete) {
      return after_trouble(task, server, result, "");
    }
    const PageText page = page_text(sink.bytes(), sink.type());
    if (page.text.size() < options_.least_text) {
      fail(
          task,
          PageFailure::too_short,
          fmt::format("{} bytes of text", page.text.size()));
    } else {
      results_.keep(task.address, page);
    }
  } catch (const NoPage& reason) {
    results_.answered();
    server.given_up = 0;
    fail(task, reason.failure, reason.reason);
  } catch (const NoText& error) {
    fail(task, PageFailure::type, error.what());
  }
  return next;
}

PageFetcher::Next PageFetcher::follow(
    const PageTask& task,
    const std::string& to) {
  constexpr std::size_t longest_address = 4000;
  PageTask next = task;
  next.now = to;
  next.failures = 0;
  if (++next.redirects > options_.transfer.redirects) {
    return fail(
        task,
        PageFailure::redirect,
        fmt::format("is redirected more than {} times", task.redirects));
  }
  if (to.size() > longest_address || server_of(to).empty()) {
    return fail(task, PageFailure::redirect, "is redirected to no web address");
  }
  return {.again = std::move(next)};
}

PageFetcher::Next PageFetcher::fail(
    const PageTask& task,
    PageFailure failure,
    std::string_view reason) {
  results_.fail(
      task.address,
      failure,
      task.now == task.address
          ? std::string(reason)
          : fmt::format("{}: {}", shown_address(task.now), reason));
  return {};
}

/// Gives the task another try later, or gives it up.
PageFetcher::Next PageFetcher::after_trouble(
    const PageTask& task,
    PageServer& server,
    const HttpResult& result,
    std::string_view prefix) {
  const int failures = task.failures + 1;
  Next next{.pause = pause_for(server)};
  if (failures < attempts_for(result.end, options_.transfer)) {
    next.again = task;
    next.again->failures = failures;
    next.pause =
        std::max(next.pause, wait_before(failures, result, options_.transfer));
    return next;
  }
  const std::string reason = fmt::format("{}{}", prefix, result.trouble);
  const PageFailure failure = failure_of(result);
  // A server that answers 404 for a page, or redirects it to where we do not
  // follow, is well.
  const bool in_trouble = failure == PageFailure::unreachable ||
      failure == PageFailure::too_slow || failure == PageFailure::connection;
  if ((in_trouble && !result.answered) || !prefix.empty()) {
    ++server.given_up;
    server.failure = failure;
    server.trouble = reason;
  }
  fail(task, failure, reason);
  return next;
}

std::chrono::milliseconds PageFetcher::pause_for(
    const PageServer& server) const {
  return server.rules ? std::max(options_.delay, server.rules->delay())
                      : options_.delay;
}

} // namespace cairn::corpus
