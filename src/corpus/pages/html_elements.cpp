#include "corpus/pages/html_elements.h"

#include <algorithm>
#include <array>
#include <functional>

namespace cairn::corpus {
namespace {

/// The elements that differ from <span>, sorted by name.
constexpr std::array elements{
    HtmlElement{"address", html_block | html_closes_paragraph},
    HtmlElement{"applet", html_dropped | html_limit},
    HtmlElement{"area", html_void},
    HtmlElement{"article", html_block | html_closes_paragraph | html_body},
    HtmlElement{"aside", html_block | html_closes_paragraph | html_dropped},
    HtmlElement{"audio", html_dropped},
    HtmlElement{"base", html_void},
    HtmlElement{"basefont", html_void},
    HtmlElement{"bgsound", html_void},
    HtmlElement{"blockquote", html_block | html_closes_paragraph},
    HtmlElement{"body", html_block | html_closes_paragraph | html_limit},
    HtmlElement{"br", html_void},
    HtmlElement{"button", html_dropped},
    HtmlElement{"canvas", html_dropped},
    HtmlElement{"caption", html_block | html_limit},
    HtmlElement{"center", html_block | html_closes_paragraph},
    HtmlElement{"col", html_block | html_void},
    HtmlElement{"colgroup", html_block},
    HtmlElement{"datalist", html_dropped},
    HtmlElement{"dd", html_block | html_closes_paragraph | html_term},
    HtmlElement{"details", html_block | html_closes_paragraph},
    HtmlElement{"dialog", html_block | html_closes_paragraph | html_dropped},
    HtmlElement{"dir", html_block | html_closes_paragraph},
    HtmlElement{"div", html_block | html_closes_paragraph},
    HtmlElement{"dl", html_block | html_closes_paragraph},
    HtmlElement{"dt", html_block | html_closes_paragraph | html_term},
    HtmlElement{"embed", html_void},
    HtmlElement{"fieldset", html_block | html_closes_paragraph},
    HtmlElement{"figcaption", html_block | html_closes_paragraph},
    HtmlElement{"figure", html_block | html_closes_paragraph},
    HtmlElement{"footer", html_block | html_closes_paragraph | html_dropped},
    HtmlElement{"form", html_block | html_closes_paragraph},
    HtmlElement{"frame", html_void},
    HtmlElement{"frameset", html_block},
    HtmlElement{"h1", html_block | html_closes_paragraph | html_heading},
    HtmlElement{"h2", html_block | html_closes_paragraph | html_heading},
    HtmlElement{"h3", html_block | html_closes_paragraph | html_heading},
    HtmlElement{"h4", html_block | html_closes_paragraph | html_heading},
    HtmlElement{"h5", html_block | html_closes_paragraph | html_heading},
    HtmlElement{"h6", html_block | html_closes_paragraph | html_heading},
    HtmlElement{"header", html_block | html_closes_paragraph},
    HtmlElement{"hgroup", html_block | html_closes_paragraph},
    HtmlElement{"hr", html_block | html_closes_paragraph | html_void},
    HtmlElement{"html", html_block | html_limit},
    HtmlElement{"iframe", html_dropped, HtmlContent::raw},
    HtmlElement{"img", html_void},
    HtmlElement{"input", html_void},
    HtmlElement{"keygen", html_void},
    HtmlElement{"legend", html_block},
    HtmlElement{"li", html_block | html_closes_paragraph | html_item},
    HtmlElement{"link", html_void},
    HtmlElement{
        "listing",
        html_block | html_closes_paragraph | html_preformatted},
    HtmlElement{"main", html_block | html_closes_paragraph | html_body},
    HtmlElement{"map", html_dropped},
    HtmlElement{"marquee", html_limit},
    HtmlElement{"math", html_dropped},
    HtmlElement{"menu", html_block | html_closes_paragraph | html_dropped},
    HtmlElement{"meta", html_void},
    HtmlElement{"meter", html_dropped},
    HtmlElement{"nav", html_block | html_closes_paragraph | html_dropped},
    HtmlElement{"noembed", html_dropped, HtmlContent::raw},
    HtmlElement{"noframes", html_dropped, HtmlContent::raw},
    HtmlElement{"noscript", html_dropped},
    HtmlElement{"object", html_dropped | html_limit},
    HtmlElement{"ol", html_block | html_closes_paragraph},
    HtmlElement{"optgroup", html_block},
    HtmlElement{"option", html_block | html_dropped | html_option},
    HtmlElement{"p", html_block | html_closes_paragraph | html_paragraph},
    HtmlElement{"param", html_void},
    HtmlElement{
        "plaintext",
        html_block | html_closes_paragraph | html_preformatted,
        HtmlContent::plain},
    HtmlElement{"pre", html_block | html_closes_paragraph | html_preformatted},
    HtmlElement{"progress", html_dropped},
    HtmlElement{"rp", html_dropped},
    HtmlElement{"rt", html_dropped},
    HtmlElement{"script", html_dropped, HtmlContent::script},
    HtmlElement{"search", html_block | html_closes_paragraph},
    HtmlElement{"section", html_block | html_closes_paragraph},
    HtmlElement{"select", html_dropped},
    HtmlElement{"source", html_void},
    HtmlElement{"style", html_dropped, HtmlContent::raw},
    HtmlElement{"summary", html_block | html_closes_paragraph},
    HtmlElement{"svg", html_dropped},
    HtmlElement{"table", html_block | html_closes_paragraph | html_limit},
    HtmlElement{"tbody", html_block},
    HtmlElement{"td", html_block | html_limit | html_cell},
    HtmlElement{"template", html_dropped | html_limit},
    HtmlElement{"textarea", html_dropped, HtmlContent::references},
    HtmlElement{"tfoot", html_block},
    HtmlElement{"th", html_block | html_limit | html_cell},
    HtmlElement{"thead", html_block},
    HtmlElement{"title", html_dropped, HtmlContent::references},
    HtmlElement{"tr", html_block | html_row},
    HtmlElement{"track", html_void},
    HtmlElement{"ul", html_block | html_closes_paragraph},
    HtmlElement{"video", html_dropped},
    HtmlElement{"wbr", html_void},
    HtmlElement{
        "xmp",
        html_block | html_closes_paragraph | html_preformatted,
        HtmlContent::raw},
};
static_assert(std::ranges::is_sorted(elements, {}, &HtmlElement::name));

} // namespace

HtmlElement html_element(std::string_view name) {
  const auto found =
      std::ranges::lower_bound(elements, name, {}, &HtmlElement::name);
  return found != elements.end() && found->name == name ? *found
                                                        : HtmlElement{name};
}

} // namespace cairn::corpus
