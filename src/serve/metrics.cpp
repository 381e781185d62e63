#include "serve/metrics.h"

#include <fmt/format.h>

#include <iterator>

namespace cairn::serve {
namespace {

template <typename Number>
void print_one(
    std::string_view name,
    std::string_view kind,
    std::string_view help,
    Number value,
    std::string& to) {
  fmt::format_to(
      std::back_inserter(to),
      "# HELP {0} {1}\n# TYPE {0} {2}\n{0} {3}\n",
      name,
      help,
      kind,
      value);
}

} // namespace

void Metrics::Histogram::add(double seconds) {
  for (std::size_t i = 0; i < limits.size(); ++i) {
    if (seconds <= limits[i]) {
      ++counts_[i];
    }
  }
  ++count_;
  sum_ += seconds;
}

void Metrics::Histogram::print(
    std::string_view name,
    std::string_view help,
    std::string& to) const {
  const auto out = std::back_inserter(to);
  fmt::format_to(out, "# HELP {0} {1}\n# TYPE {0} histogram\n", name, help);
  for (std::size_t i = 0; i < limits.size(); ++i) {
    fmt::format_to(
        out,
        "{}_bucket{{le=\"{}\"}} {}\n",
        name,
        limits[i],
        counts_[i]);
  }
  fmt::format_to(
      out,
      "{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n{0}_count {1}\n",
      name,
      count_,
      sum_);
}

void Metrics::answered(std::string_view path, int status) {
  const std::lock_guard lock(mutex_);
  ++answers_[{std::string(path), status}];
}

void Metrics::first_token(double seconds) {
  const std::lock_guard lock(mutex_);
  first_tokens_.add(seconds);
}

void Metrics::finished_text(double seconds) {
  const std::lock_guard lock(mutex_);
  texts_.add(seconds);
}

std::string Metrics::text(std::size_t texts, std::size_t room) const {
  std::string all;
  print_one(
      "cairn_texts",
      "gauge",
      "Texts that are computed or wait.",
      texts,
      all);
  print_one(
      "cairn_texts_limit",
      "gauge",
      "Texts that may be computed or wait.",
      room,
      all);
  print_one(
      "cairn_prompt_tokens_total",
      "counter",
      "Tokens of prompts.",
      prompt_tokens_.load(),
      all);
  print_one(
      "cairn_generated_tokens_total",
      "counter",
      "Tokens generated.",
      new_tokens_.load(),
      all);
  print_one(
      "cairn_cancelled_texts_total",
      "counter",
      "Texts whose client left.",
      cancelled_.load(),
      all);
  const std::lock_guard lock(mutex_);
  all += "# HELP cairn_requests_total Requests answered.\n"
         "# TYPE cairn_requests_total counter\n";
  for (const auto& [key, count] : answers_) {
    fmt::format_to(
        std::back_inserter(all),
        "cairn_requests_total{{path=\"{}\",status=\"{}\"}} {}\n",
        key.first,
        key.second,
        count);
  }
  first_tokens_.print(
      "cairn_first_token_seconds",
      "From a request to its first token.",
      all);
  texts_.print("cairn_text_seconds", "From a request to its end.", all);
  return all;
}

} // namespace cairn::serve
