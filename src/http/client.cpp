#include "http/internal/client.h"

#include <cairn/base/error.h>

#include <curl/curl.h>

#include <memory>

namespace cairn::http {
namespace {

constexpr std::size_t longest_reply = std::size_t{64} << 20;

std::size_t append(char* data, std::size_t, std::size_t size, void* to) {
  auto& body = *static_cast<std::string*>(to);
  if (body.size() + size > longest_reply) {
    return 0; // ends the transfer
  }
  body.append(data, size);
  return size;
}

} // namespace

ClientReply put_json(
    const std::string& address,
    const std::string& body,
    const std::string& key) {
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> easy(
      curl_easy_init(),
      curl_easy_cleanup);
  curl_slist* list =
      curl_slist_append(nullptr, "Content-Type: application/json");
  list = curl_slist_append(list, "Expect:"); // no wait before the body
  if (!key.empty()) {
    list = curl_slist_append(list, ("Authorization: Bearer " + key).c_str());
  }
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(
      list,
      curl_slist_free_all);
  ClientReply reply;
  curl_easy_setopt(easy.get(), CURLOPT_URL, address.c_str());
  curl_easy_setopt(easy.get(), CURLOPT_CUSTOMREQUEST, "PUT");
  curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDS, body.c_str());
  curl_easy_setopt(
      easy.get(),
      CURLOPT_POSTFIELDSIZE_LARGE,
      static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(easy.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(easy.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy.get(), CURLOPT_CONNECTTIMEOUT, 20L);
  curl_easy_setopt(easy.get(), CURLOPT_WRITEFUNCTION, append);
  curl_easy_setopt(easy.get(), CURLOPT_WRITEDATA, &reply.body);
  if (const CURLcode code = curl_easy_perform(easy.get()); code != CURLE_OK) {
    throw CommError(
        {.what = curl_easy_strerror(code),
         .where = address,
         .remedy = "is `cairn serve` running there?"});
  }
  long status = 0;
  curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
  reply.status = static_cast<int>(status);
  return reply;
}

} // namespace cairn::http
