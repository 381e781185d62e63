#include <cairn/corpus/download.h>

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include "base/file_error.h"
#include "corpus/download_attempts.h"
#include "corpus/download_part.h"
#include "corpus/http_get.h"
#include "corpus/make_folders.h"
#include "corpus/message_digest.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace cairn::corpus {
namespace {

/// A strong ETag, else the date. A weak ETag ("W/…") does not promise the same
/// bytes.
std::string validator_of(const HttpHead& head) {
  return !head.etag.empty() && !head.etag.starts_with("W/")
      ? head.etag
      : head.last_modified;
}

void check_room(const std::filesystem::path& path, std::uint64_t bytes) {
  const auto folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code unknown;
  const auto space = std::filesystem::space(folder, unknown);
  if (!unknown && space.available < bytes) {
    throw DataError(
        {.what = "there is not enough room on the disk",
         .where = path.string(),
         .values = fmt::format(
             "{:.1f} MB to come, {:.1f} MB free",
             static_cast<double>(bytes) / 1e6,
             static_cast<double>(space.available) / 1e6),
         .remedy = "free some, or choose another folder"});
  }
}

/// The server's answer does not fit what we have or look for.
struct Unfit {
  HttpResult result;
  bool start_over;
};

/// Writes one answer into the part.
class PartSink : public HttpSink {
 public:
  PartSink(
      DownloadPart& part,
      const DownloadRequest& request,
      std::string address,
      DownloadWatcher& watcher)
      : part_(part),
        request_(request),
        address_(std::move(address)),
        watcher_(watcher) {}

  void begin(const HttpHead& head) override {
    total_ = head.status == 206 ? head.range_total : head.length;
    if (request_.size && total_ && *total_ != *request_.size) {
      throw Unfit{
          {.end = HttpEnd::refused,
           .head = head,
           .trouble = fmt::format(
               "sends {} bytes where the file has {}",
               *total_,
               *request_.size)},
          false};
    }
    if (head.status == 206) {
      const auto known = part_.origin().total;
      if (head.range_start != part_.size() ||
          (known != 0 && total_ && known != *total_)) {
        throw Unfit{
            {.end = HttpEnd::transient,
             .head = head,
             .trouble = "sends other bytes than those asked for"},
            true};
      }
    } else {
      part_.start_over(
          {.address = address_,
           .validator = validator_of(head),
           .total = total_.value_or(0)});
    }
    resumed_from_ = part_.size();
    size_ = request_.size ? request_.size : total_;
    if (!size_ && part_.origin().total != 0) {
      size_ = part_.origin().total; // a range of "…/*"
    }
    if (total_ && *total_ > part_.size()) {
      check_room(request_.path, *total_ - part_.size());
    }
    watcher_.begin(part_.size(), total_.value_or(0));
  }

  void write(std::span<const char> bytes) override {
    if (size_ &&
        (*size_ < part_.size() || //
         bytes.size() > *size_ - part_.size())) {
      // After bytes of an earlier answer the whole may still be right.
      throw Unfit{
          {.end = resumed_from_ > 0 ? HttpEnd::transient : HttpEnd::refused,
           .trouble = fmt::format("sends more than the {} bytes", *size_)},
          true};
    }
    part_.append(bytes);
    watcher_.advance(bytes.size());
  }

  std::uint64_t resumed_from() const { return resumed_from_; }
  bool complete() const { return !size_ || part_.size() == *size_; }

 private:
  DownloadPart& part_;
  const DownloadRequest& request_;
  std::string address_;
  DownloadWatcher& watcher_;
  std::optional<std::uint64_t> total_; ///< as this answer says
  std::optional<std::uint64_t> size_;  ///< of the file, by what we know
  std::uint64_t resumed_from_ = 0;
};

std::string found_sum(const DownloadPart& part, const Checksum& expected) {
  return expected.kind == Checksum::Kind::sha256 ? part.sha256() : part.sha1();
}

const char* name_of(Checksum::Kind kind) {
  return kind == Checksum::Kind::sha256 ? "sha256" : "sha1";
}

/// A part from elsewhere, or without a validator, is gone on with only where a
/// checksum will tell whether the halves belong together.
bool can_go_on(
    const DownloadPart& part,
    const DownloadRequest& request,
    const std::string& address) {
  const bool same_file =
      part.origin().address == address && !part.origin().validator.empty();
  return part.size() > 0 && (same_file || request.expected.has_value());
}

/// One attempt of download() and what it leaves in the part.
class Fetch {
 public:
  Fetch(
      const DownloadRequest& request,
      const DownloadOptions& options,
      DownloadPart& part)
      : request_(request),
        options_(options),
        part_(part),
        furthest_(part.size()) {}

  Attempt operator()(const std::string& address) {
    HttpRequest http = http_request(address, options_);
    if (can_go_on(part_, request_, address)) {
      http.from = part_.size();
      if (part_.origin().address == address) {
        http.if_range = part_.origin().validator;
      }
    }
    DownloadWatcher silent;
    DownloadWatcher& watcher =
        options_.watcher != nullptr ? *options_.watcher : silent;
    PartSink sink(part_, request_, address, watcher);
    Attempt attempt;
    try {
      attempt.result = http_get(http, sink);
    } catch (const Unfit& unfit) {
      attempt.result = unfit.result;
      if (unfit.start_over) {
        part_.start_over({});
      }
    }
    // Bytes that were here before do not count: a server that always breaks at
    // the same place would be asked for ever.
    attempt.progressed = part_.size() > furthest_;
    furthest_ = std::max(furthest_, part_.size());
    resumed_from_ = sink.resumed_from();
    judge(attempt.result, http.from, sink);
    if (attempt.result.end == HttpEnd::complete) {
      watcher.complete();
    } else {
      watcher.interrupted();
    }
    return attempt;
  }

  std::uint64_t resumed_from() const { return resumed_from_; }

 private:
  void judge(HttpResult& result, std::uint64_t from, const PartSink& sink) {
    if (result.head.status == 416 && from > 0) {
      // Nothing after what we have: it is all there, or it is not this file.
      const auto known = part_.origin().total;
      if (result.head.range_total == from && (known == 0 || known == from) &&
          request_.size.value_or(from) == from) {
        result.end = HttpEnd::complete;
        resumed_from_ = from;
      } else {
        result.end = HttpEnd::transient;
        part_.start_over({});
        return;
      }
    } else if (result.end == HttpEnd::complete && !sink.complete()) {
      result.end = HttpEnd::transient;
      result.trouble = "the connection ended before the file did";
    }
    if (result.end != HttpEnd::complete || !request_.expected) {
      return;
    }
    const auto found = found_sum(part_, *request_.expected);
    if (found == request_.expected->hex) {
      return;
    }
    // Halves of two files? Then the whole of one may be right.
    result.end = resumed_from_ > 0 ? HttpEnd::transient : HttpEnd::refused;
    result.trouble = fmt::format(
        "wrong checksum: {} is {} and should be {}",
        name_of(request_.expected->kind),
        found,
        request_.expected->hex);
    part_.start_over({});
  }

  const DownloadRequest& request_;
  const DownloadOptions& options_;
  DownloadPart& part_;
  std::uint64_t furthest_;
  std::uint64_t resumed_from_ = 0;
};

/// What is under the final name already.
DownloadReport check_existing(const DownloadRequest& request) {
  const UniqueFd fd = open_file(request.path, O_RDONLY);
  MessageDigest sha256("sha256");
  MessageDigest sha1("sha1");
  const bool use_sha1 =
      request.expected && request.expected->kind == Checksum::Kind::sha1;
  std::vector<char> buffer(1 << 20);
  DownloadReport report;
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      throw file_error("read", request.path, errno);
    }
    if (got == 0) {
      break;
    }
    const auto bytes = std::span(buffer).first(static_cast<std::size_t>(got));
    sha256.update(bytes);
    if (use_sha1) {
      sha1.update(bytes);
    }
    report.size += bytes.size();
  }
  report.sha256 = sha256.hex();
  if (request.size && *request.size != report.size) {
    throw DataError(
        {.what = "the file that is there already has the wrong size",
         .where = request.path.string(),
         .values = fmt::format(
             "{} bytes, and should have {}",
             report.size,
             *request.size),
         .remedy = "remove it, or have it replaced with --force"});
  }
  if (request.expected) {
    const auto found = use_sha1 ? sha1.hex() : report.sha256;
    if (found != request.expected->hex) {
      throw DataError(
          {.what = "the file that is there already has the wrong checksum",
           .where = request.path.string(),
           .values = fmt::format(
               "{} is {} and should be {}",
               name_of(request.expected->kind),
               found,
               request.expected->hex),
           .remedy = "remove it, or have it replaced with --force"});
    }
  }
  return report;
}

std::string by_hand(const DownloadRequest& request, const DownloadPart& part) {
  const auto kept = part.size() == 0
      ? std::string()
      : fmt::format(
            "\n{} bytes are kept; the same command goes on from there.",
            part.size());
  return fmt::format(
      "{}\nIf this machine has no network, fetch the file elsewhere, put it "
      "here as {} and run the same command again: it will be checked and used.",
      kept,
      request.path.string());
}

} // namespace

Checksum sha256_checksum(const std::string& hex) {
  Checksum sum{.hex = hex};
  for (char& c : sum.hex) {
    c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  if (sum.hex.size() != 64 ||
      sum.hex.find_first_not_of("0123456789abcdef") != std::string::npos) {
    throw ConfigError(
        {.what = fmt::format("\"{}\" is no SHA-256", hex),
         .remedy = "give its 64 hexadecimal digits"});
  }
  return sum;
}

DownloadReport download(
    const DownloadRequest& request,
    const DownloadOptions& options,
    const Logger& log) {
  for (const auto& address : request.addresses) {
    check_address(address);
  }
  if (!request.replace && std::filesystem::exists(request.path)) {
    return check_existing(request);
  }
  make_folders(request.path.parent_path());
  DownloadPart part(
      request.path,
      request.expected && request.expected->kind == Checksum::Kind::sha1);
  Fetch fetch(request, options, part);
  DownloadReport report;
  try {
    report.address = try_addresses(
        request.path.filename().string(),
        request.addresses,
        [&] { return by_hand(request, part); },
        options,
        log,
        std::ref(fetch));
  } catch (const Error&) {
    if (part.size() == 0) {
      part.discard();
    }
    throw;
  }
  report.size = part.size();
  report.sha256 = part.sha256();
  report.resumed_from = fetch.resumed_from();
  part.publish();
  return report;
}

std::string download_text(
    const std::vector<std::string>& addresses,
    std::size_t limit,
    const DownloadOptions& options,
    const Logger& log) {
  class TextSink : public HttpSink {
   public:
    explicit TextSink(std::size_t limit) : limit_(limit) {}
    void begin(const HttpHead&) override {}
    void write(std::span<const char> bytes) override {
      if (bytes.size() > limit_ - text.size()) {
        throw DataError(
            {.what = "the server sends too much",
             .values = fmt::format("at most {} bytes are accepted", limit_)});
      }
      text.append(bytes.data(), bytes.size());
    }
    std::string text;

   private:
    std::size_t limit_;
  };
  std::string text;
  try_addresses(
      "a list of checksums",
      addresses,
      [] { return std::string(); },
      options,
      log,
      [&](const std::string& address) {
        TextSink sink(limit);
        Attempt attempt{
            .result = http_get(http_request(address, options), sink)};
        text = std::move(sink.text);
        return attempt;
      });
  return text;
}

} // namespace cairn::corpus
