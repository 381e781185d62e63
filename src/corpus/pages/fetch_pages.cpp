#include "corpus/internal/fetch_pages.h"

#include <cairn/base/error.h>

#include "base/internal/trimmed.h"
#include "base/internal/utf8.h"
#include "corpus/internal/web_address.h"
#include "corpus/pages/page_fetcher.h"
#include "corpus/pages/page_results.h"
#include "corpus/pages/server_queue.h"
#include "data/internal/line_reader.h"

#include <algorithm>
#include <cctype>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace cairn::corpus {
namespace {

/// The address at the beginning of a line of a list, before a blank.
std::string_view address_in(std::string_view line) {
  line = trimmed(line);
  return line.substr(0, line.find_first_of(" \t"));
}

bool is_web_address(std::string_view address) {
  constexpr std::size_t longest = 4000;
  return address.size() <= longest &&
      valid_utf8_end(address) == address.size() &&
      std::ranges::none_of(
             address,
             [](char c) {
               return std::iscntrl(static_cast<unsigned char>(c)) != 0;
             }) &&
      !server_of(std::string(address)).empty();
}

class PageRun {
 public:
  explicit PageRun(const PageOptions& options)
      : options_(options), results_(options) {}

  PageReport run() {
    {
      // Joined at the end of the block, also when reading throws.
      std::vector<std::jthread> workers;
      const struct Stop {
        ServerQueue& queue;
        ~Stop() {
          if (std::uncaught_exceptions() > 0) {
            queue.stop();
          }
        }
      } stop{queue_};
      for (std::size_t i = 0; i < options_.jobs; ++i) {
        workers.emplace_back([this] { work(); });
      }
      read_lists();
      queue_.finish();
    }
    if (thrown_ != nullptr) {
      std::rethrow_exception(thrown_);
    }
    return results_.commit();
  }

 private:
  void read_lists() {
    for (const std::filesystem::path& input : options_.inputs) {
      data::LineReader lines(input);
      while (const auto line = lines.next()) {
        const std::string_view address = address_in(*line);
        if (!address.empty() && !take(address)) {
          return;
        }
      }
    }
  }

  /// False when a worker has failed.
  bool take(std::string_view address) {
    if (results_.meet(address) != PageResults::Before::fresh) {
      advance();
      return true;
    }
    if (!is_web_address(address)) {
      results_.fail(address, PageFailure::address, "cannot be fetched");
      advance();
      return true;
    }
    return queue_.add({std::string(address), std::string(address)});
  }

  void work() {
    try {
      PageFetcher fetcher(options_, results_);
      while (const auto turn = queue_.take()) {
        const auto next = fetcher.fetch(turn->task, turn->server());
        const bool done = !next.again;
        queue_.done(*turn, next.pause, next.again);
        if (done) {
          advance();
        }
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (thrown_ == nullptr) {
        thrown_ = std::current_exception();
      }
      queue_.stop();
    }
  }

  void advance() {
    if (options_.on_progress) {
      options_.on_progress(1);
    }
  }

  const PageOptions& options_;
  PageResults results_;
  ServerQueue queue_;
  std::mutex mutex_;
  std::exception_ptr thrown_;
};

} // namespace

PageReport fetch_pages(const PageOptions& options) {
  return PageRun(options).run();
}

std::uint64_t count_addresses(
    const std::vector<std::filesystem::path>& inputs) {
  std::uint64_t count = 0;
  for (const std::filesystem::path& input : inputs) {
    data::LineReader lines(input);
    while (const auto line = lines.next()) {
      count += address_in(*line).empty() ? 0 : 1;
    }
  }
  return count;
}

} // namespace cairn::corpus
