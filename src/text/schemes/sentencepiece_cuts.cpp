#include "text/schemes/sentencepiece_cuts.h"

#include "text/files/proto_fields.h"

#include <cstring>
#include <string>
#include <vector>

namespace cairn::text {
namespace {

constexpr char32_t space_symbol = 0x2581; ///< the symbol for a space

/// A Darts double-array trie in units of four bytes, with the layout of
/// darts-clone.
class DoubleArray {
 public:
  explicit DoubleArray(std::string_view bytes) : units_(bytes.size() / 4) {
    std::memcpy(units_.data(), bytes.data(), units_.size() * 4);
  }

  /// Calls `visit(key)` for every key. False when the bytes are no trie of
  /// reasonable size.
  template <class Visit>
  bool for_each_key(Visit&& visit) const {
    struct Node {
      std::uint32_t at;
      std::string key;
    };
    if (units_.empty()) {
      return false;
    }
    std::vector<Node> open{{0, {}}};
    for (std::size_t nodes = 0; !open.empty(); ++nodes) {
      const Node node = std::move(open.back());
      open.pop_back();
      if (nodes > most_nodes || node.key.size() > longest_key) {
        return false; // the units lead in a circle
      }
      const std::uint32_t unit = units_[node.at];
      const std::uint32_t children =
          node.at ^ ((unit >> 10) << ((unit & 0x200) >> 6));
      if ((unit & 0x100) != 0 && !node.key.empty()) {
        visit(std::string_view(node.key));
      }
      for (std::uint32_t label = 1; label < 256; ++label) {
        const std::uint32_t child = children ^ label;
        if (child < units_.size() && (units_[child] & 0x800000ff) == label) {
          open.push_back({child, node.key + static_cast<char>(label)});
        }
      }
    }
    return true;
  }

 private:
  static constexpr std::size_t longest_key = 256;
  /// Limit on the nodes visited. Keys share the units of their endings, so
  /// there are more nodes than units.
  static constexpr std::size_t most_nodes = std::size_t{1} << 22;

  std::vector<std::uint32_t> units_;
};

/// Two characters as one number.
std::uint64_t pair(char32_t left, char32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | right;
}

void add_neighbours(
    std::string_view text,
    std::unordered_set<std::uint64_t>& pairs) {
  const char* const end = text.data() + text.size();
  Utf8Char left;
  for (const char* at = text.data(); at != end; at += left.length) {
    const Utf8Char right = decode_utf8(at, end);
    if (at != text.data()) {
      pairs.insert(pair(left.code_point, right.code_point));
    }
    left = right;
  }
}

} // namespace

SentencePieceCuts::SentencePieceCuts(std::string_view model) {
  enum { unigram = 1, bpe = 2, characters = 4 }; // ModelType
  ProtoFields::Field field;
  for (ProtoFields fields(model); fields.next(field);) {
    ProtoFields::Field part;
    ProtoFields parts(field.bytes);
    if (field.number == 1) {
      read_piece(field.bytes);
    } else if (field.number == 2) { // trainer_spec
      while (parts.next(part)) {
        if (part.number == 3) { // model_type; one of whole words may not be cut
          possible_ &= part.value == unigram || part.value == bpe ||
              part.value == characters;
        } else if (part.number == 24) { // treat_whitespace_as_suffix
          possible_ &= part.value == 0;
        }
      }
    } else if (field.number == 3) { // normalizer_spec
      while (parts.next(part)) {
        if (part.number == 2) {
          read_rules(part.bytes);
        } else if (part.number == 3) {
          dummy_prefix_ = part.value != 0; // add_dummy_prefix
        } else if (part.number == 5) {     // escape_whitespaces
          possible_ &= part.value != 0;
        }
      }
    }
  }
}

void SentencePieceCuts::read_piece(std::string_view message) {
  enum { normal = 1, user_defined = 4, unused = 5 }; // Type
  std::string_view piece;
  std::uint64_t type = normal;
  ProtoFields::Field field;
  for (ProtoFields fields(message); fields.next(field);) {
    if (field.number == 1) {
      piece = field.bytes;
    } else if (field.number == 3) {
      type = field.value;
    }
  }
  if (type != normal && type != user_defined && type != unused) {
    return; // such pieces are not found in texts
  }
  possible_ &= piece.find(' ') == std::string_view::npos;
  add_neighbours(piece, pieces_);
}

/// Reads the rules: the size of the trie in four bytes, the trie, and the
/// strings its values point to.
void SentencePieceCuts::read_rules(std::string_view charsmap) {
  std::uint32_t size = 0;
  if (charsmap.empty()) {
    return;
  }
  if (charsmap.size() > sizeof(size)) {
    std::memcpy(&size, charsmap.data(), sizeof(size));
    charsmap.remove_prefix(sizeof(size));
  }
  possible_ &= size <= charsmap.size() &&
      DoubleArray(charsmap.substr(0, size))
          .for_each_key([this](std::string_view key) { read_rule(key); });
}

void SentencePieceCuts::read_rule(std::string_view source) {
  const Utf8Char first =
      decode_utf8(source.data(), source.data() + source.size());
  if (first.length == source.size()) {
    changed_.insert(first.code_point);
  } else {
    add_neighbours(source, sources_);
  }
}

std::size_t SentencePieceCuts::last(std::string_view text) const {
  if (!possible_) {
    return 0;
  }
  std::size_t at = text.size();
  while (at-- > 1) {
    if (may_cut(text, at)) {
      return at;
    }
  }
  return 0;
}

bool SentencePieceCuts::may_cut(std::string_view text, std::size_t at) const {
  const char* const end = text.data() + text.size();
  const Utf8Char right = decode_utf8(text.data() + at, end);
  const std::size_t after = at + right.length;
  const Utf8Char left = last_utf8(text.substr(0, at));
  if (!right.valid() || !left.valid() || after == text.size()) {
    return false;
  }
  const char32_t l = left.code_point;
  const char32_t r = right.code_point;
  if (l == ' ' || l == space_symbol || r == space_symbol) {
    return false;
  }
  if (pieces_.contains(pair(l, r == ' ' ? space_symbol : r))) {
    return false;
  }
  if (changed_.empty() && sources_.empty()) {
    return true;
  }
  if (changed_.contains(l) || changed_.contains(r) ||
      sources_.contains(pair(l, r))) {
    return false;
  }
  const std::size_t before = at - left.length;
  const Utf8Char first =
      before > 0 ? last_utf8(text.substr(0, before)) : Utf8Char{};
  const Utf8Char next = decode_utf8(text.data() + after, end);
  return !sources_.contains(pair(first.code_point, l)) && next.valid() &&
      !sources_.contains(pair(r, next.code_point));
}

} // namespace cairn::text
