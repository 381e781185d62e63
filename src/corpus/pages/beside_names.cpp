#include "corpus/pages/beside_names.h"

#include "base/internal/ascii_case.h"

#include <algorithm>
#include <array>
#include <string>

namespace cairn::corpus {
namespace {

constexpr auto names = std::to_array<std::string_view>(
    {"ad",
     "ads",
     "adsbygoogle",
     "advert",
     "advertisement",
     "advertising",
     "author-bio",
     "banner-ad",
     "breadcrumb",
     "breadcrumbs",
     "catlinks",
     "comment-form",
     "comment-list",
     "comment-respond",
     "comments",
     "comments-area",
     "comments-list",
     "comments-section",
     "cookie",
     "cookie-banner",
     "cookie-bar",
     "cookie-consent",
     "cookie-notice",
     "cookies",
     "copyright",
     "disclaimer",
     "disqus-thread",
     "footer",
     "footnav",
     "gdpr",
     "global-footer",
     "global-header",
     "global-nav",
     "language-switcher",
     "legal",
     "login",
     "main-menu",
     "main-nav",
     "masthead",
     "menu",
     "mobile-menu",
     "modal",
     "most-popular",
     "most-read",
     "mw-editsection",
     "mw-jump-link",
     "nav",
     "nav-bar",
     "nav-menu",
     "navbar",
     "navbox",
     "navigation",
     "newsletter",
     "newsletter-signup",
     "page-footer",
     "pager",
     "pagination",
     "paywall",
     "popup",
     "post-meta",
     "post-nav",
     "post-navigation",
     "post-tags",
     "printfooter",
     "promo",
     "promos",
     "read-more",
     "recommendations",
     "recommended",
     "reference",
     "related",
     "related-articles",
     "related-content",
     "related-links",
     "related-news",
     "related-posts",
     "related-stories",
     "reply",
     "respond",
     "screen-reader-text",
     "search-form",
     "share",
     "share-bar",
     "share-buttons",
     "share-links",
     "share-tools",
     "sharedaddy",
     "sharing",
     "side-bar",
     "sidebar",
     "site-footer",
     "site-header",
     "site-nav",
     "site-navigation",
     "sitemap",
     "skip-link",
     "skip-links",
     "skip-to-content",
     "social",
     "social-bar",
     "social-buttons",
     "social-icons",
     "social-links",
     "social-media",
     "social-share",
     "sponsor",
     "sponsored",
     "sponsors",
     "sr-only",
     "subscribe",
     "subscription",
     "tag-cloud",
     "tag-list",
     "tags",
     "toc",
     "toolbar",
     "top-bar",
     "topbar",
     "visually-hidden",
     "widget",
     "widget-area",
     "widgets"});
static_assert(std::ranges::is_sorted(names));

constexpr auto roles = std::to_array<std::string_view>(
    {"alertdialog",
     "banner",
     "complementary",
     "contentinfo",
     "dialog",
     "menu",
     "menubar",
     "navigation",
     "search",
     "toolbar"});
static_assert(std::ranges::is_sorted(roles));

} // namespace

bool is_beside_name(std::string_view name) {
  std::string plain = lower_case(name);
  std::ranges::replace(plain, '_', '-');
  return std::ranges::binary_search(names, plain);
}

bool is_beside_role(std::string_view role) {
  return std::ranges::binary_search(roles, lower_case(role));
}

} // namespace cairn::corpus
