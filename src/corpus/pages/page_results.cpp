#include "corpus/pages/page_results.h"

#include <cairn/base/error.h>

#include "corpus/clean/unicode.h"
#include "corpus/internal/web_address.h"
#include "corpus/output/json_text.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace cairn::corpus {
namespace fs = std::filesystem;
namespace {

/// Servers in a row that were not reached, when it is the network's fault.
constexpr std::size_t most_unreachable = 50;

std::string_view without_fragment(std::string_view address) {
  return address.substr(0, address.find('#'));
}

/// Whether bytes go to the output as they are written: a pipe or a device.
bool is_stream(const fs::path& output) {
  std::error_code ignored;
  const fs::file_status status = fs::status(output, ignored);
  return output == "-" || fs::is_fifo(status) || fs::is_character_file(status);
}

fs::path part_of(const fs::path& output) {
  fs::path part = output;
  part += ".part";
  return part;
}

std::string in_one_line(std::string_view text) {
  std::string line = printable(text);
  std::ranges::replace(line, '\n', ' ');
  std::ranges::replace(line, '\t', ' ');
  return line;
}

} // namespace

std::string_view name_of(PageFailure failure) {
  static constexpr std::array<std::string_view, page_failures> names{
      "no web address",
      "robots.txt",
      "unreachable",
      "too slow",
      "broken connection",
      "status",
      "redirect",
      "no page",
      "too large",
      "too short"};
  return names[static_cast<std::size_t>(failure)];
}

PageResults::PageResults(const PageOptions& options) : options_(options) {
  bool fresh = true;
  if (is_stream(options.output)) {
    stream_.emplace(options.output);
  } else {
    const fs::path part = part_of(options.output);
    std::error_code ignored;
    fresh = !fs::exists(part, ignored);
    pages_.emplace(part, [this](std::string_view line) {
      return take_page(line);
    });
  }
  if (!options.failures.empty()) {
    failures_.emplace(options.failures, [&](std::string_view line) {
      return !fresh && take_failure(line);
    });
  }
}

bool PageResults::take_page(std::string_view line) {
  simdjson::dom::parser parser;
  simdjson::dom::object page;
  std::string_view address;
  std::string_view text;
  if (parser.parse(line.data(), line.size()).get(page) != simdjson::SUCCESS ||
      page.at_key("url").get(address) != simdjson::SUCCESS ||
      page.at_key("text").get(text) != simdjson::SUCCESS) {
    return false;
  }
  earlier_.insert(digest_of(without_fragment(address)));
  ++report_.pages;
  report_.text_bytes += text.size();
  return true;
}

bool PageResults::take_failure(std::string_view line) {
  const std::size_t first = line.find('\t');
  const std::size_t second = line.find('\t', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) {
    return false;
  }
  const std::string_view name = line.substr(first + 1, second - first - 1);
  for (std::size_t i = 0; i < page_failures; ++i) {
    if (name == name_of(static_cast<PageFailure>(i))) {
      earlier_.insert(digest_of(without_fragment(line.substr(0, first))));
      ++report_.failed[i];
      return true;
    }
  }
  return false;
}

PageResults::Before PageResults::meet(std::string_view address) {
  const TextDigest digest = digest_of(without_fragment(address));
  const std::lock_guard lock(mutex_);
  ++report_.read;
  if (!met_.insert(digest).second) {
    ++report_.repeated;
    return Before::repeated;
  }
  if (earlier_.contains(digest)) {
    ++report_.earlier;
    return Before::earlier;
  }
  return Before::fresh;
}

void PageResults::keep(std::string_view address, const PageText& page) {
  std::string line = "{\"url\": ";
  append_json_string(line, address);
  line += ", \"title\": ";
  append_json_string(line, page.title);
  line += ", \"text\": ";
  append_json_string(line, page.text);
  line += "}\n";
  const std::lock_guard lock(mutex_);
  if (pages_) {
    pages_->append(line);
  } else {
    stream_->write(line);
  }
  ++report_.pages;
  report_.text_bytes += page.text.size();
}

void PageResults::fail(
    std::string_view address,
    PageFailure failure,
    std::string_view reason) {
  const std::string line = fmt::format(
      "{}\t{}\t{}\n",
      in_one_line(address),
      name_of(failure),
      in_one_line(reason));
  const std::lock_guard lock(mutex_);
  if (failure != PageFailure::unreachable) {
    write_failure(failure, line);
    return;
  }
  held_.push_back(line);
  held_servers_.insert(server_of(std::string(address)));
  if (held_servers_.size() >= most_unreachable) {
    give_up();
  }
}

void PageResults::write_failure(PageFailure failure, std::string_view line) {
  ++report_.failed[static_cast<std::size_t>(failure)];
  if (failures_) {
    failures_->append(line);
  }
}

void PageResults::answered() {
  const std::lock_guard lock(mutex_);
  answered_ = true;
  write_held();
}

void PageResults::write_held() {
  for (const std::string& line : held_) {
    write_failure(PageFailure::unreachable, line);
  }
  held_.clear();
  held_servers_.clear();
}

void PageResults::give_up() const {
  const std::string& last = held_.back();
  const std::size_t address = last.find('\t');
  const std::size_t reason = last.find('\t', address + 1) + 1;
  throw DataError(
      {.what = fmt::format(
           "{} servers were asked in a row, and none could be reached",
           held_servers_.size()),
       .where = last.substr(0, address),
       .values = last.substr(reason, last.size() - reason - 1),
       .remedy = "look whether the network is up, and run the same command "
                 "again to continue"});
}

PageReport PageResults::commit() {
  const std::lock_guard lock(mutex_);
  // A few servers that are gone, at the end of a list, are no lost network.
  constexpr std::size_t few = 3;
  const bool first_run = report_.pages == 0;
  if (!answered_ && !held_.empty() &&
      (first_run || held_servers_.size() > few)) {
    give_up();
  }
  write_held();
  if (failures_) {
    failures_->sync();
  }
  if (pages_) {
    pages_->publish(options_.output);
  } else {
    stream_->commit();
  }
  return report_;
}

} // namespace cairn::corpus
