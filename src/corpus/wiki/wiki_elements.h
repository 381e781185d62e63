#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace cairn::corpus {

/// The treatment of an HTML-like element of wikitext.
enum class ElementAction {
  strip,   ///< remove the tag, keep the content
  drop,    ///< remove both
  once,    ///< remove both, up to the first closing tag
  gap,     ///< replace the tag by a blank
  literal, ///< the content is no markup
  formula,
  code,
};

struct WikiElement {
  std::string_view name;
  ElementAction action;
};

/// Elements of wikitext and what to do with them, sorted by name.
inline constexpr std::array wiki_elements{
    WikiElement{"a", ElementAction::strip},
    WikiElement{"abbr", ElementAction::strip},
    WikiElement{"b", ElementAction::strip},
    WikiElement{"bdi", ElementAction::strip},
    WikiElement{"bdo", ElementAction::strip},
    WikiElement{"big", ElementAction::strip},
    WikiElement{"blockquote", ElementAction::strip},
    WikiElement{"br", ElementAction::gap},
    WikiElement{"caption", ElementAction::drop},
    WikiElement{"ce", ElementAction::formula},
    WikiElement{"center", ElementAction::strip},
    WikiElement{"chem", ElementAction::formula},
    WikiElement{"cite", ElementAction::strip},
    WikiElement{"code", ElementAction::code},
    WikiElement{"data", ElementAction::strip},
    WikiElement{"dd", ElementAction::drop},
    WikiElement{"del", ElementAction::strip},
    WikiElement{"dfn", ElementAction::strip},
    WikiElement{"dir", ElementAction::drop},
    WikiElement{"div", ElementAction::strip},
    WikiElement{"dl", ElementAction::drop},
    WikiElement{"dt", ElementAction::drop},
    WikiElement{"em", ElementAction::strip},
    WikiElement{"font", ElementAction::strip},
    WikiElement{"form", ElementAction::drop},
    WikiElement{"gallery", ElementAction::drop},
    WikiElement{"graph", ElementAction::drop},
    WikiElement{"h1", ElementAction::strip},
    WikiElement{"h2", ElementAction::strip},
    WikiElement{"h3", ElementAction::strip},
    WikiElement{"h4", ElementAction::strip},
    WikiElement{"h5", ElementAction::strip},
    WikiElement{"h6", ElementAction::strip},
    WikiElement{"hiero", ElementAction::strip},
    WikiElement{"hr", ElementAction::gap},
    WikiElement{"i", ElementAction::strip},
    WikiElement{"imagemap", ElementAction::drop},
    WikiElement{"img", ElementAction::strip},
    WikiElement{"includeonly", ElementAction::drop},
    WikiElement{"indicator", ElementAction::drop},
    WikiElement{"input", ElementAction::strip},
    WikiElement{"inputbox", ElementAction::drop},
    WikiElement{"ins", ElementAction::strip},
    WikiElement{"kbd", ElementAction::strip},
    WikiElement{"li", ElementAction::drop},
    WikiElement{"mapframe", ElementAction::drop},
    WikiElement{"maplink", ElementAction::drop},
    WikiElement{"mark", ElementAction::strip},
    WikiElement{"math", ElementAction::formula},
    WikiElement{"menu", ElementAction::drop},
    WikiElement{"nobr", ElementAction::strip},
    WikiElement{"noinclude", ElementAction::drop},
    WikiElement{"nowiki", ElementAction::literal},
    WikiElement{"ol", ElementAction::drop},
    WikiElement{"onlyinclude", ElementAction::strip},
    WikiElement{"option", ElementAction::drop},
    WikiElement{"p", ElementAction::strip},
    WikiElement{"plaintext", ElementAction::strip},
    WikiElement{"poem", ElementAction::strip},
    WikiElement{"pre", ElementAction::drop},
    WikiElement{"q", ElementAction::strip},
    WikiElement{"rb", ElementAction::strip},
    WikiElement{"ref", ElementAction::once},
    WikiElement{"references", ElementAction::drop},
    WikiElement{"rp", ElementAction::drop},
    WikiElement{"rt", ElementAction::drop},
    WikiElement{"ruby", ElementAction::strip},
    WikiElement{"s", ElementAction::strip},
    WikiElement{"samp", ElementAction::strip},
    WikiElement{"score", ElementAction::drop},
    WikiElement{"section", ElementAction::strip},
    WikiElement{"select", ElementAction::drop},
    WikiElement{"small", ElementAction::drop},
    WikiElement{"source", ElementAction::drop},
    WikiElement{"span", ElementAction::strip},
    WikiElement{"strike", ElementAction::strip},
    WikiElement{"strong", ElementAction::strip},
    WikiElement{"sub", ElementAction::strip},
    WikiElement{"sup", ElementAction::strip},
    WikiElement{"syntaxhighlight", ElementAction::literal},
    WikiElement{"table", ElementAction::drop},
    WikiElement{"td", ElementAction::drop},
    WikiElement{"templatedata", ElementAction::drop},
    WikiElement{"templatestyles", ElementAction::drop},
    WikiElement{"textarea", ElementAction::drop},
    WikiElement{"th", ElementAction::drop},
    WikiElement{"time", ElementAction::strip},
    WikiElement{"timeline", ElementAction::drop},
    WikiElement{"tr", ElementAction::drop},
    WikiElement{"tt", ElementAction::strip},
    WikiElement{"u", ElementAction::strip},
    WikiElement{"ul", ElementAction::drop},
    WikiElement{"var", ElementAction::strip},
    WikiElement{"wbr", ElementAction::strip},
};

static_assert(std::is_sorted(
    wiki_elements.begin(),
    wiki_elements.end(),
    [](const auto& a, const auto& b) { return a.name < b.name; }));

} // namespace cairn::corpus
