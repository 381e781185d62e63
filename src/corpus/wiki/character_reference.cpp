#include "corpus/wiki/character_reference.h"

#include "base/internal/utf8.h"
#include "corpus/clean/unicode.h"

#include <unicode/utf.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace cairn::corpus {
namespace {

struct Named {
  std::string_view name;
  char32_t code;
};

// HTML 4's names and XML's &apos;, sorted.
constexpr std::array named{
    Named{"AElig", 0xc6},    Named{"Aacute", 0xc1},    Named{"Acirc", 0xc2},
    Named{"Agrave", 0xc0},   Named{"Alpha", 0x391},    Named{"Aring", 0xc5},
    Named{"Atilde", 0xc3},   Named{"Auml", 0xc4},      Named{"Beta", 0x392},
    Named{"Ccedil", 0xc7},   Named{"Chi", 0x3a7},      Named{"Dagger", 0x2021},
    Named{"Delta", 0x394},   Named{"ETH", 0xd0},       Named{"Eacute", 0xc9},
    Named{"Ecirc", 0xca},    Named{"Egrave", 0xc8},    Named{"Epsilon", 0x395},
    Named{"Eta", 0x397},     Named{"Euml", 0xcb},      Named{"Gamma", 0x393},
    Named{"Iacute", 0xcd},   Named{"Icirc", 0xce},     Named{"Igrave", 0xcc},
    Named{"Iota", 0x399},    Named{"Iuml", 0xcf},      Named{"Kappa", 0x39a},
    Named{"Lambda", 0x39b},  Named{"Mu", 0x39c},       Named{"Ntilde", 0xd1},
    Named{"Nu", 0x39d},      Named{"OElig", 0x152},    Named{"Oacute", 0xd3},
    Named{"Ocirc", 0xd4},    Named{"Ograve", 0xd2},    Named{"Omega", 0x3a9},
    Named{"Omicron", 0x39f}, Named{"Oslash", 0xd8},    Named{"Otilde", 0xd5},
    Named{"Ouml", 0xd6},     Named{"Phi", 0x3a6},      Named{"Pi", 0x3a0},
    Named{"Prime", 0x2033},  Named{"Psi", 0x3a8},      Named{"Rho", 0x3a1},
    Named{"Scaron", 0x160},  Named{"Sigma", 0x3a3},    Named{"THORN", 0xde},
    Named{"Tau", 0x3a4},     Named{"Theta", 0x398},    Named{"Uacute", 0xda},
    Named{"Ucirc", 0xdb},    Named{"Ugrave", 0xd9},    Named{"Upsilon", 0x3a5},
    Named{"Uuml", 0xdc},     Named{"Xi", 0x39e},       Named{"Yacute", 0xdd},
    Named{"Yuml", 0x178},    Named{"Zeta", 0x396},     Named{"aacute", 0xe1},
    Named{"acirc", 0xe2},    Named{"acute", 0xb4},     Named{"aelig", 0xe6},
    Named{"agrave", 0xe0},   Named{"alefsym", 0x2135}, Named{"alpha", 0x3b1},
    Named{"amp", 0x26},      Named{"and", 0x2227},     Named{"ang", 0x2220},
    Named{"apos", 0x27},     Named{"aring", 0xe5},     Named{"asymp", 0x2248},
    Named{"atilde", 0xe3},   Named{"auml", 0xe4},      Named{"bdquo", 0x201e},
    Named{"beta", 0x3b2},    Named{"brvbar", 0xa6},    Named{"bull", 0x2022},
    Named{"cap", 0x2229},    Named{"ccedil", 0xe7},    Named{"cedil", 0xb8},
    Named{"cent", 0xa2},     Named{"chi", 0x3c7},      Named{"circ", 0x2c6},
    Named{"clubs", 0x2663},  Named{"cong", 0x2245},    Named{"copy", 0xa9},
    Named{"crarr", 0x21b5},  Named{"cup", 0x222a},     Named{"curren", 0xa4},
    Named{"dArr", 0x21d3},   Named{"dagger", 0x2020},  Named{"darr", 0x2193},
    Named{"deg", 0xb0},      Named{"delta", 0x3b4},    Named{"diams", 0x2666},
    Named{"divide", 0xf7},   Named{"eacute", 0xe9},    Named{"ecirc", 0xea},
    Named{"egrave", 0xe8},   Named{"empty", 0x2205},   Named{"emsp", 0x2003},
    Named{"ensp", 0x2002},   Named{"epsilon", 0x3b5},  Named{"equiv", 0x2261},
    Named{"eta", 0x3b7},     Named{"eth", 0xf0},       Named{"euml", 0xeb},
    Named{"euro", 0x20ac},   Named{"exist", 0x2203},   Named{"fnof", 0x192},
    Named{"forall", 0x2200}, Named{"frac12", 0xbd},    Named{"frac14", 0xbc},
    Named{"frac34", 0xbe},   Named{"frasl", 0x2044},   Named{"gamma", 0x3b3},
    Named{"ge", 0x2265},     Named{"gt", 0x3e},        Named{"hArr", 0x21d4},
    Named{"harr", 0x2194},   Named{"hearts", 0x2665},  Named{"hellip", 0x2026},
    Named{"iacute", 0xed},   Named{"icirc", 0xee},     Named{"iexcl", 0xa1},
    Named{"igrave", 0xec},   Named{"image", 0x2111},   Named{"infin", 0x221e},
    Named{"int", 0x222b},    Named{"iota", 0x3b9},     Named{"iquest", 0xbf},
    Named{"isin", 0x2208},   Named{"iuml", 0xef},      Named{"kappa", 0x3ba},
    Named{"lArr", 0x21d0},   Named{"lambda", 0x3bb},   Named{"lang", 0x2329},
    Named{"laquo", 0xab},    Named{"larr", 0x2190},    Named{"lceil", 0x2308},
    Named{"ldquo", 0x201c},  Named{"le", 0x2264},      Named{"lfloor", 0x230a},
    Named{"lowast", 0x2217}, Named{"loz", 0x25ca},     Named{"lrm", 0x200e},
    Named{"lsaquo", 0x2039}, Named{"lsquo", 0x2018},   Named{"lt", 0x3c},
    Named{"macr", 0xaf},     Named{"mdash", 0x2014},   Named{"micro", 0xb5},
    Named{"middot", 0xb7},   Named{"minus", 0x2212},   Named{"mu", 0x3bc},
    Named{"nabla", 0x2207},  Named{"nbsp", 0xa0},      Named{"ndash", 0x2013},
    Named{"ne", 0x2260},     Named{"ni", 0x220b},      Named{"not", 0xac},
    Named{"notin", 0x2209},  Named{"nsub", 0x2284},    Named{"ntilde", 0xf1},
    Named{"nu", 0x3bd},      Named{"oacute", 0xf3},    Named{"ocirc", 0xf4},
    Named{"oelig", 0x153},   Named{"ograve", 0xf2},    Named{"oline", 0x203e},
    Named{"omega", 0x3c9},   Named{"omicron", 0x3bf},  Named{"oplus", 0x2295},
    Named{"or", 0x2228},     Named{"ordf", 0xaa},      Named{"ordm", 0xba},
    Named{"oslash", 0xf8},   Named{"otilde", 0xf5},    Named{"otimes", 0x2297},
    Named{"ouml", 0xf6},     Named{"para", 0xb6},      Named{"part", 0x2202},
    Named{"permil", 0x2030}, Named{"perp", 0x22a5},    Named{"phi", 0x3c6},
    Named{"pi", 0x3c0},      Named{"piv", 0x3d6},      Named{"plusmn", 0xb1},
    Named{"pound", 0xa3},    Named{"prime", 0x2032},   Named{"prod", 0x220f},
    Named{"prop", 0x221d},   Named{"psi", 0x3c8},      Named{"quot", 0x22},
    Named{"rArr", 0x21d2},   Named{"radic", 0x221a},   Named{"rang", 0x232a},
    Named{"raquo", 0xbb},    Named{"rarr", 0x2192},    Named{"rceil", 0x2309},
    Named{"rdquo", 0x201d},  Named{"real", 0x211c},    Named{"reg", 0xae},
    Named{"rfloor", 0x230b}, Named{"rho", 0x3c1},      Named{"rlm", 0x200f},
    Named{"rsaquo", 0x203a}, Named{"rsquo", 0x2019},   Named{"sbquo", 0x201a},
    Named{"scaron", 0x161},  Named{"sdot", 0x22c5},    Named{"sect", 0xa7},
    Named{"shy", 0xad},      Named{"sigma", 0x3c3},    Named{"sigmaf", 0x3c2},
    Named{"sim", 0x223c},    Named{"spades", 0x2660},  Named{"sub", 0x2282},
    Named{"sube", 0x2286},   Named{"sum", 0x2211},     Named{"sup", 0x2283},
    Named{"sup1", 0xb9},     Named{"sup2", 0xb2},      Named{"sup3", 0xb3},
    Named{"supe", 0x2287},   Named{"szlig", 0xdf},     Named{"tau", 0x3c4},
    Named{"there4", 0x2234}, Named{"theta", 0x3b8},    Named{"thetasym", 0x3d1},
    Named{"thinsp", 0x2009}, Named{"thorn", 0xfe},     Named{"tilde", 0x2dc},
    Named{"times", 0xd7},    Named{"trade", 0x2122},   Named{"uArr", 0x21d1},
    Named{"uacute", 0xfa},   Named{"uarr", 0x2191},    Named{"ucirc", 0xfb},
    Named{"ugrave", 0xf9},   Named{"uml", 0xa8},       Named{"upsih", 0x3d2},
    Named{"upsilon", 0x3c5}, Named{"uuml", 0xfc},      Named{"weierp", 0x2118},
    Named{"xi", 0x3be},      Named{"yacute", 0xfd},    Named{"yen", 0xa5},
    Named{"yuml", 0xff},     Named{"zeta", 0x3b6},     Named{"zwj", 0x200d},
    Named{"zwnj", 0x200c},
};

std::optional<char32_t> numbered(std::string_view digits) {
  const bool hexadecimal =
      !digits.empty() && (digits[0] == 'x' || digits[0] == 'X');
  digits.remove_prefix(hexadecimal ? 1 : 0);
  unsigned code = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] =
      std::from_chars(digits.data(), end, code, hexadecimal ? 16 : 10);
  if (error != std::errc() || stop != end) {
    return std::nullopt;
  }
  if (code >= 0x80 && code <= 0x9f) {
    return windows_1252(code);
  }
  const bool control =
      (code < 0x20 && code != '\t' && code != '\n') || code == 0x7f;
  if (control || U_IS_SURROGATE(code) || code > 0x10ffff) {
    return std::nullopt;
  }
  return code;
}

} // namespace

char32_t windows_1252(unsigned byte) {
  static constexpr std::array<char32_t, 32> codes{
      0x20ac, 0x81,   0x201a, 0x192,  0x201e, 0x2026, 0x2020, 0x2021,
      0x2c6,  0x2030, 0x160,  0x2039, 0x152,  0x8d,   0x17d,  0x8f,
      0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014,
      0x2dc,  0x2122, 0x161,  0x203a, 0x153,  0x9d,   0x17e,  0x178};
  return codes[byte - 0x80];
}

std::optional<CharacterReference> reference_at(std::string_view text) {
  constexpr std::size_t longest = 16;
  if (!text.starts_with('&')) {
    return std::nullopt;
  }
  const std::size_t end = text.substr(0, longest).find(';');
  if (end == std::string_view::npos || end < 2) {
    return std::nullopt;
  }
  const std::string_view name = text.substr(1, end - 1);
  if (name[0] == '#') {
    const auto code = numbered(name.substr(1));
    return code ? std::optional(CharacterReference{*code, end + 1})
                : std::nullopt;
  }
  const auto found = std::lower_bound(
      named.begin(),
      named.end(),
      name,
      [](const Named& each, auto wanted) { return each.name < wanted; });
  if (found == named.end() || found->name != name) {
    return std::nullopt;
  }
  return CharacterReference{found->code, end + 1};
}

std::string decode_references(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t next = std::min(text.find('&', at), text.size());
    out.append(text, at, next - at);
    at = next;
    if (at == text.size()) {
      break;
    }
    if (const auto reference = reference_at(text.substr(at))) {
      append_utf8(out, reference->code);
      at += reference->length;
    } else {
      out += text[at++];
    }
  }
  return out;
}

} // namespace cairn::corpus
