#include "corpus/wiki/wiki_page.h"

#include "corpus/wiki/character_reference.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace cairn::corpus {
namespace {

/// The content of the first element called `name`. In dumps "<" always begins a
/// tag, since text has "&lt;" for it, so a search is enough to parse.
std::optional<std::string_view> content_of(
    std::string_view xml,
    std::string_view name) {
  const std::string opening = "<" + std::string(name);
  std::size_t at = 0;
  while ((at = xml.find(opening, at)) != std::string_view::npos) {
    at += opening.size();
    if (at == xml.size() ||
        (xml[at] != '>' && xml[at] != ' ' && xml[at] != '/')) {
      continue; // another name with the same start
    }
    const std::size_t end = xml.find('>', at);
    if (end == std::string_view::npos) {
      return std::nullopt;
    }
    if (xml[end - 1] == '/') {
      return std::string_view();
    }
    const std::size_t begin = end + 1;
    const std::string closing = "</" + std::string(name) + ">";
    return xml.substr(begin, xml.find(closing, begin) - begin);
  }
  return std::nullopt;
}

std::string decoded(std::optional<std::string_view> content) {
  return decode_references(content.value_or(""));
}

} // namespace

WikiSite WikiSite::from(std::string_view head) {
  WikiSite site;
  site.base = decoded(content_of(head, "base"));
  constexpr std::size_t most = 500; // Wikipedia has about 30
  std::size_t at = 0;
  while (site.namespaces.size() < most &&
         (at = head.find("<namespace ", at)) != std::string_view::npos) {
    const std::string name = decoded(content_of(head.substr(at), "namespace"));
    site.namespaces.push_back(name); // the namespace of articles has no name
    ++at;
  }
  return site;
}

WikiPage WikiPage::from(std::string_view xml) {
  WikiPage page;
  // The last revision counts if there are several: it is the newest.
  const std::size_t revision = std::min(xml.rfind("<revision>"), xml.size());
  const std::string_view head =
      xml.substr(0, std::min(xml.find("<revision>"), xml.size()));
  const std::string_view body = xml.substr(revision);
  page.title = decoded(content_of(head, "title"));
  page.id = decoded(content_of(head, "id"));
  page.redirect = content_of(head, "redirect").has_value();
  const std::string_view ns = content_of(head, "ns").value_or("0");
  std::from_chars(ns.data(), ns.data() + ns.size(), page.ns);
  page.revision = decoded(content_of(body, "id"));
  page.wikitext = content_of(body, "model").value_or("wikitext") == "wikitext";
  page.text = content_of(body, "text").value_or("");
  return page;
}

} // namespace cairn::corpus
