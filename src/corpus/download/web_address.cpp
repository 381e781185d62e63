#include "corpus/internal/web_address.h"

#include "corpus/internal/download.h"

#include <cairn/base/error.h>

#include "base/internal/ascii_case.h"

#include <curl/curl.h>

#include <algorithm>
#include <memory>

namespace cairn::corpus {
namespace {

struct FreeUrl {
  void operator()(CURLU* url) const { ::curl_url_cleanup(url); }
};
struct FreeText {
  void operator()(char* text) const { ::curl_free(text); }
};

using Url = std::unique_ptr<CURLU, FreeUrl>;

/// The parsed address; null when it is malformed.
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

std::string scheme_of(const std::string& address) {
  return part_of(parse_url(address), CURLUPART_SCHEME);
}

bool is_web(const std::string& scheme) {
  return scheme == "https" || scheme == "http";
}

} // namespace

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

std::string server_of(const std::string& address) {
  const auto url = parse_url(address);
  if (!is_web(part_of(url, CURLUPART_SCHEME))) {
    return {};
  }
  const auto host = lower_case(part_of(url, CURLUPART_HOST));
  const auto port = part_of(url, CURLUPART_PORT, CURLU_NO_DEFAULT_PORT);
  return port.empty() || host.empty() ? host : host + ":" + port;
}

std::string path_of(const std::string& address) {
  const auto url = parse_url(address);
  const auto query = part_of(url, CURLUPART_QUERY);
  return part_of(url, CURLUPART_PATH) + (query.empty() ? "" : "?" + query);
}

std::string address_beside(
    const std::string& address,
    const std::string& path) {
  const auto url = parse_url(address);
  return part_of(url, CURLUPART_SCHEME) + "://" + server_of(address) + path;
}

std::string file_name_of(const std::string& address) {
  check_address(address);
  const auto path =
      part_of(parse_url(address), CURLUPART_PATH, CURLU_URLDECODE);
  const auto name = path.substr(path.rfind('/') + 1);
  // Encoded slashes are decoded before this, so `name` holds none. A leading
  // dot would make the file hidden, or be "." or "..".
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
