#include "corpus/http_get.h"

#include <cairn/base/error.h>
#include <cairn/corpus/download.h>

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <exception>
#include <memory>
#include <string_view>

namespace cairn::corpus {
namespace {

struct FreeEasy {
  void operator()(CURL* handle) const { ::curl_easy_cleanup(handle); }
};
struct FreeList {
  void operator()(curl_slist* list) const { ::curl_slist_free_all(list); }
};
struct FreeUrl {
  void operator()(CURLU* url) const { ::curl_url_cleanup(url); }
};
struct FreeText {
  void operator()(char* text) const { ::curl_free(text); }
};

using Url = std::unique_ptr<CURLU, FreeUrl>;

/// Null when the address cannot be read as one.
Url parse_url(const std::string& address) {
  Url url(::curl_url());
  if (url != nullptr &&
      ::curl_url_set(url.get(), CURLUPART_URL, address.c_str(), 0) !=
          CURLUE_OK) {
    url.reset();
  }
  return url;
}

std::string part_of(const Url& url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (url == nullptr ||
      ::curl_url_get(url.get(), part, &text, flags) != CURLUE_OK) {
    return {};
  }
  return std::unique_ptr<char, FreeText>(text).get();
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return lower;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  const auto last = text.find_last_not_of(" \t\r\n");
  return first == text.npos ? "" : text.substr(first, last - first + 1);
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value)
                                             : std::nullopt;
}

/// "bytes 100-199/200" or, with status 416, "bytes */200".
void read_content_range(std::string_view value, HttpHead& head) {
  if (!value.starts_with("bytes ")) {
    return;
  }
  value.remove_prefix(6);
  const auto dash = std::min(value.find('-'), value.size());
  const auto slash = std::min(value.find('/'), value.size());
  head.range_start = number(value.substr(0, dash));
  head.range_total =
      slash < value.size() ? number(value.substr(slash + 1)) : std::nullopt;
}

/// One transfer, without redirects: curl's callbacks and what they gather.
struct Transfer {
  HttpSink& sink;
  HttpHead head{};
  bool begun = false;
  std::exception_ptr thrown{};

  bool wanted() const { return head.status == 200 || head.status == 206; }

  void begin() {
    if (!begun && wanted()) {
      begun = true;
      sink.begin(head);
    }
  }

  /// Runs `what`; exceptions must not pass through curl's C frames.
  template <typename Function>
  std::size_t guarded(std::size_t size, Function&& what) {
    try {
      what();
      return size;
    } catch (...) {
      thrown = std::current_exception();
      return 0; // not `size`: curl ends the transfer
    }
  }

  static std::size_t on_header(
      char* data,
      std::size_t,
      std::size_t size,
      void* self_pointer) {
    auto& self = *static_cast<Transfer*>(self_pointer);
    return self.guarded(size, [&] { self.header({data, size}); });
  }

  static std::size_t on_body(
      char* data,
      std::size_t,
      std::size_t size,
      void* self_pointer) {
    auto& self = *static_cast<Transfer*>(self_pointer);
    return self.guarded(size, [&] {
      self.begin();
      if (self.begun) { // pages that go with an error are dropped
        self.sink.write({data, size});
      }
    });
  }

  void header(std::string_view line) {
    if (line.starts_with("HTTP/")) { // the final answer comes last
      head = {};
      const auto code =
          trimmed(line.substr(std::min(line.find(' '), line.size())));
      head.status = static_cast<long>(number(code.substr(0, 3)).value_or(0));
      return;
    }
    const auto colon = line.find(':');
    if (colon == line.npos) {
      return;
    }
    const auto name = lower_case(line.substr(0, colon));
    const auto value = trimmed(line.substr(colon + 1));
    if (name == "content-length") {
      head.length = number(value);
    } else if (name == "content-range") {
      read_content_range(value, head);
    } else if (name == "etag") {
      head.etag = value;
    } else if (name == "last-modified") {
      head.last_modified = value;
    }
  }
};

HttpEnd end_of(CURLcode code) {
  switch (code) {
    case CURLE_OK:
      return HttpEnd::complete;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
      return HttpEnd::unreachable;
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_SSL_CONNECT_ERROR:
      return HttpEnd::transient;
    default:
      return HttpEnd::refused;
  }
}

HttpEnd end_of_status(long status) {
  switch (status) {
    case 200:
    case 206:
      return HttpEnd::complete;
    case 408: // the server waited too long for us
    case 425:
    case 429: // too many requests
    case 500:
    case 502:
    case 503:
    case 504:
      return HttpEnd::transient;
    default:
      return HttpEnd::refused;
  }
}

template <typename Value>
void set(CURL* handle, CURLoption option, Value value) {
  if (::curl_easy_setopt(handle, option, value) != CURLE_OK) {
    throw InternalError(
        {.what = fmt::format("libcurl refuses its option {}", int(option))});
  }
}

using Headers = std::unique_ptr<curl_slist, FreeList>;

void add_header(Headers& headers, const std::string& line) {
  curl_slist* const longer =
      ::curl_slist_append(headers.get(), line.c_str()); // null: as it was
  if (longer == nullptr) {
    throw std::bad_alloc();
  }
  static_cast<void>(headers.release());
  headers.reset(longer);
}

/// One exchange; `location` gets where the server sends us instead, if it does.
HttpResult exchange(
    const HttpRequest& request,
    const std::string& address,
    HttpSink& sink,
    std::string& location) {
  const std::unique_ptr<CURL, FreeEasy> handle(::curl_easy_init());
  if (handle == nullptr) {
    throw std::bad_alloc();
  }
  Transfer transfer{.sink = sink};
  std::array<char, CURL_ERROR_SIZE> message{};
  Headers headers;
  set(handle.get(), CURLOPT_URL, address.c_str());
  set(handle.get(), CURLOPT_USERAGENT, "cairn-data-download");
  set(handle.get(), CURLOPT_NOSIGNAL, 1L);
  set(handle.get(), CURLOPT_ERRORBUFFER, message.data());
  set(handle.get(),
      CURLOPT_CONNECTTIMEOUT_MS,
      static_cast<long>(request.connect_timeout.count()));
  // A stall is less than a byte a second for so many seconds.
  set(handle.get(), CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(handle.get(),
      CURLOPT_LOW_SPEED_TIME,
      std::max(1L, static_cast<long>(request.stall_timeout.count() / 1000)));
  set(handle.get(), CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  set(handle.get(), CURLOPT_HEADERDATA, &transfer);
  set(handle.get(), CURLOPT_WRITEFUNCTION, &Transfer::on_body);
  set(handle.get(), CURLOPT_WRITEDATA, &transfer);
  set(handle.get(), CURLOPT_BUFFERSIZE, 256L << 10);
  if (!request.certificates.empty()) {
    set(handle.get(), CURLOPT_CAINFO, request.certificates.c_str());
  }
  if (request.from > 0) {
    // As a header, because curl's own option gives up on servers that answer
    // with the whole file.
    add_header(headers, fmt::format("Range: bytes={}-", request.from));
    if (!request.if_range.empty()) {
      add_header(headers, "If-Range: " + request.if_range);
    }
    set(handle.get(), CURLOPT_HTTPHEADER, headers.get());
  }

  const CURLcode code = ::curl_easy_perform(handle.get());
  if (transfer.thrown != nullptr) {
    std::rethrow_exception(transfer.thrown);
  }
  HttpResult result{.end = end_of(code), .head = transfer.head};
  if (code != CURLE_OK) {
    result.trouble = message[0] != '\0' ? std::string(trimmed(message.data()))
                                        : ::curl_easy_strerror(code);
    return result;
  }
  char* target = nullptr;
  ::curl_easy_getinfo(handle.get(), CURLINFO_REDIRECT_URL, &target);
  if (target != nullptr) {
    location = target;
    return result;
  }
  curl_off_t wait = 0;
  if (::curl_easy_getinfo(handle.get(), CURLINFO_RETRY_AFTER, &wait) ==
          CURLE_OK &&
      wait > 0) {
    result.retry_after = std::chrono::seconds(wait);
  }
  result.end = end_of_status(transfer.head.status);
  if (result.end == HttpEnd::complete) {
    transfer.begin(); // for a file without bytes
  } else {
    result.trouble = fmt::format("the server answers {}", transfer.head.status);
  }
  return result;
}

std::string scheme_of(const std::string& address) {
  return part_of(parse_url(address), CURLUPART_SCHEME);
}

bool is_web(const std::string& scheme) {
  return scheme == "https" || scheme == "http";
}

} // namespace

HttpResult http_get(const HttpRequest& request, HttpSink& sink) {
  check_address(request.address);
  std::string address = request.address;
  for (int hop = 0;; ++hop) {
    std::string location;
    HttpResult result = exchange(request, address, sink, location);
    if (location.empty()) {
      return result;
    }
    result.end = HttpEnd::refused;
    if (!may_redirect(address, location)) {
      result.trouble = fmt::format(
          "redirected to {}, which is not followed from {}",
          shown_address(location),
          shown_address(address));
      return result;
    }
    if (hop == request.redirects) {
      result.trouble = fmt::format(
          "redirected more than {} times, at last to {}",
          request.redirects,
          shown_address(location));
      return result;
    }
    address = location;
  }
}

bool may_redirect(const std::string& from, const std::string& to) {
  const auto scheme = scheme_of(to);
  return is_web(scheme) && (scheme == "https" || scheme_of(from) == scheme);
}

void check_address(const std::string& address) {
  const auto url = parse_url(address);
  const auto scheme = part_of(url, CURLUPART_SCHEME);
  if (!is_web(scheme) || part_of(url, CURLUPART_HOST).empty()) {
    throw ConfigError(
        {.what = "this is no address to download from",
         .where = shown_address(address),
         .remedy = "give one that starts with https:// or http://"});
  }
}

std::string shown_address(const std::string& address) {
  const auto url = parse_url(address);
  if (url == nullptr || part_of(url, CURLUPART_USER).empty()) {
    return address;
  }
  ::curl_url_set(url.get(), CURLUPART_USER, nullptr, 0);
  ::curl_url_set(url.get(), CURLUPART_PASSWORD, nullptr, 0);
  return part_of(url, CURLUPART_URL);
}

std::string file_name_of(const std::string& address) {
  check_address(address);
  const auto path =
      part_of(parse_url(address), CURLUPART_PATH, CURLU_URLDECODE);
  const auto name = path.substr(path.rfind('/') + 1);
  // An encoded slash was decoded too, so `name` holds none; a dot in front
  // would make it hidden, or be "." and "..".
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
  });
  if (name.empty() || name.front() == '.' || !plain || name.size() > 200) {
    throw ConfigError(
        {.what = "the address does not end in a file's name",
         .where = shown_address(address)});
  }
  return name;
}

} // namespace cairn::corpus
