#include "corpus/download/http_get.h"

#include <cairn/base/error.h>

#include "corpus/download/public_network.h"
#include "corpus/internal/web_address.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <new>

namespace cairn::corpus {
namespace {

struct FreeList {
  void operator()(curl_slist* list) const { ::curl_slist_free_all(list); }
};

/// One transfer, without redirects: curl's callbacks and their results.
struct Transfer {
  HttpSink& sink;
  HttpHead head{};
  bool begun = false;
  std::exception_ptr thrown{};
  static constexpr std::size_t largest_head = 1 << 20;
  std::size_t head_bytes = 0;
  bool public_only = false;
  std::string refused_network{}; ///< the address that is not public

  bool wanted() const { return head.status == 200 || head.status == 206; }

  void begin() {
    if (!begun && wanted()) {
      begun = true;
      sink.begin(head);
    }
  }

  /// Runs `what` and keeps its exception, which must not pass through curl's C
  /// frames.
  template <typename Function>
  std::size_t guarded(std::size_t size, Function&& what) {
    try {
      what();
      return size;
    } catch (...) {
      thrown = std::current_exception();
      return 0; // anything but `size` ends the transfer
    }
  }

  static std::size_t on_header(
      char* data,
      std::size_t,
      std::size_t size,
      void* self_pointer) {
    auto& self = *static_cast<Transfer*>(self_pointer);
    // A server may send lines without end.
    self.head_bytes += size;
    if (self.head_bytes > largest_head) {
      return 0;
    }
    return self.guarded(size, [&] { self.head.read_line({data, size}); });
  }

  static std::size_t on_body(
      char* data,
      std::size_t,
      std::size_t size,
      void* self_pointer) {
    auto& self = *static_cast<Transfer*>(self_pointer);
    return self.guarded(size, [&] {
      self.begin();
      if (self.begun) { // the page of an error is dropped
        self.sink.write({data, size});
      }
    });
  }
};

/// Makes curl's sockets, if the network that they would lead to is allowed.
curl_socket_t open_socket(
    void* transfer,
    curlsocktype,
    curl_sockaddr* address) {
  auto& self = *static_cast<Transfer*>(transfer);
  if (self.public_only && !is_public(address->addr)) {
    self.refused_network = shown_network(address->addr);
    return CURL_SOCKET_BAD;
  }
  return ::socket(
      address->family,
      address->socktype | SOCK_CLOEXEC,
      address->protocol);
}

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
      ::curl_slist_append(headers.get(), line.c_str()); // null: list unchanged
  if (longer == nullptr) {
    throw std::bad_alloc();
  }
  static_cast<void>(headers.release());
  headers.reset(longer);
}

/// Makes one exchange; `location` gets the target of a redirect, if there is
/// one.
HttpResult exchange(
    CURL* handle,
    const HttpRequest& request,
    const std::string& address,
    HttpSink& sink,
    std::string& location) {
  ::curl_easy_reset(handle); // keeps connections
  const bool by_proxy = request.public_only && has_proxy(address);
  Transfer transfer{
      .sink = sink,
      .public_only = request.public_only && !by_proxy};
  std::array<char, CURL_ERROR_SIZE> message{};
  Headers headers;
  set(handle, CURLOPT_URL, address.c_str());
  set(handle, CURLOPT_USERAGENT, request.user_agent.c_str());
  set(handle, CURLOPT_NOSIGNAL, 1L);
  set(handle, CURLOPT_ERRORBUFFER, message.data());
  set(handle,
      CURLOPT_CONNECTTIMEOUT_MS,
      static_cast<long>(request.connect_timeout.count()));
  // A stall is less than one byte a second for this many seconds.
  set(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(handle,
      CURLOPT_LOW_SPEED_TIME,
      std::max(1L, static_cast<long>(request.stall_timeout.count() / 1000)));
  set(handle,
      CURLOPT_TIMEOUT_MS,
      static_cast<long>(request.longest_time.count()));
  if (request.compressed) {
    set(handle, CURLOPT_ACCEPT_ENCODING, ""); // all that curl can unpack
  }
  if (by_proxy) {
    // The sockets are not checked, so none may lead past the proxy.
    set(handle, CURLOPT_NOPROXY, "");
  }
  set(handle, CURLOPT_OPENSOCKETFUNCTION, &open_socket);
  set(handle, CURLOPT_OPENSOCKETDATA, &transfer);
  set(handle, CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  set(handle, CURLOPT_HEADERDATA, &transfer);
  set(handle, CURLOPT_WRITEFUNCTION, &Transfer::on_body);
  set(handle, CURLOPT_WRITEDATA, &transfer);
  set(handle, CURLOPT_BUFFERSIZE, 256L << 10);
  if (!request.certificates.empty()) {
    set(handle, CURLOPT_CAINFO, request.certificates.c_str());
  }
  if (request.from > 0) {
    // Set as a header, because curl's own option gives up on servers that
    // answer with the whole file.
    add_header(headers, fmt::format("Range: bytes={}-", request.from));
    if (!request.if_range.empty()) {
      add_header(headers, "If-Range: " + request.if_range);
    }
    set(handle, CURLOPT_HTTPHEADER, headers.get());
  }

  const CURLcode code = ::curl_easy_perform(handle);
  if (transfer.thrown != nullptr) {
    std::rethrow_exception(transfer.thrown);
  }
  HttpResult result{.end = end_of(code), .head = transfer.head};
  if (code != CURLE_OK) {
    result.trouble =
        message[0] != '\0' ? message.data() : ::curl_easy_strerror(code);
    result.too_slow = code == CURLE_OPERATION_TIMEDOUT;
    if (!transfer.refused_network.empty()) {
      result.end = HttpEnd::refused;
      result.private_network = true;
      result.trouble = fmt::format(
          "{} is an address of a private network",
          transfer.refused_network);
    } else if (transfer.head_bytes > Transfer::largest_head) {
      result.end = HttpEnd::refused;
      result.trouble = "the head of the answer is too large";
    }
    return result;
  }
  result.answered = true;
  char* target = nullptr;
  ::curl_easy_getinfo(handle, CURLINFO_REDIRECT_URL, &target);
  if (target != nullptr) {
    location = target;
    return result;
  }
  curl_off_t wait = 0;
  if (::curl_easy_getinfo(handle, CURLINFO_RETRY_AFTER, &wait) == CURLE_OK &&
      wait > 0) {
    result.retry_after = std::chrono::seconds(wait);
  }
  result.end = end_of_status(transfer.head.status);
  if (result.end == HttpEnd::complete) {
    transfer.begin(); // in case the file is empty
  } else {
    result.trouble = fmt::format("the server answers {}", transfer.head.status);
  }
  return result;
}

} // namespace

HttpClient::HttpClient() : handle_(nullptr) {
  // Older versions of curl are not made ready by several threads at a time.
  static const CURLcode ready = ::curl_global_init(CURL_GLOBAL_DEFAULT);
  if (ready == CURLE_OK) {
    handle_ = ::curl_easy_init();
  }
  if (handle_ == nullptr) {
    throw std::bad_alloc();
  }
}

HttpClient::~HttpClient() {
  ::curl_easy_cleanup(handle_);
}

HttpResult HttpClient::get(const HttpRequest& request, HttpSink& sink) {
  check_address(request.address);
  std::string address = request.address;
  for (int hop = 0;; ++hop) {
    std::string location;
    HttpResult result = exchange(handle_, request, address, sink, location);
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
      result.redirect = location;
      result.trouble = fmt::format(
          "redirected more than {} times, at last to {}",
          request.redirects,
          shown_address(location));
      return result;
    }
    address = location;
  }
}

HttpResult http_get(const HttpRequest& request, HttpSink& sink) {
  return HttpClient().get(request, sink);
}

} // namespace cairn::corpus
