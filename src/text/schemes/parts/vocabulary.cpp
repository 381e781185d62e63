#include "text/schemes/parts/vocabulary.h"

#include "text/files/json_document.h"
#include "text/hash_bytes.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <unordered_map>

namespace cairn::text {
namespace {

constexpr std::uint64_t vocabulary_limit = 256U << 20U;

/// The highest id allowed. Ids may leave holes, but a small file must not make
/// us allocate gigabytes.
std::int64_t highest_id(std::size_t count) {
  return static_cast<std::int64_t>(count) * 4 + 1'000'000;
}

} // namespace

Vocabulary::Vocabulary(
    const std::vector<Entry>& entries,
    const std::string& where)
    : Vocabulary(
          entries,
          static_cast<std::size_t>(highest_id(entries.size())) + 1,
          where) {}

Vocabulary::Vocabulary(
    const std::vector<Entry>& entries,
    std::size_t ids,
    const std::string& where) {
  tokens_.reserve(entries.size());
  rebuild(std::bit_ceil(entries.size() * 2 + 16));
  for (const Entry& entry : entries) {
    if (entry.id < 0 || static_cast<std::size_t>(entry.id) >= ids) {
      throw DataError(
          {.what = fmt::format(
               "the id {} of \"{}\" is out of place",
               entry.id,
               entry.token),
           .where = where,
           .values = fmt::format("{} tokens", entries.size())});
    }
    put(entry.token, entry.id, where);
  }
}

TokenId Vocabulary::add(std::string_view token) {
  if (const auto known = find(token)) {
    return *known;
  }
  const auto id = static_cast<TokenId>(size());
  put(token, id, "");
  return id;
}

void Vocabulary::add(
    std::string_view token,
    TokenId id,
    const std::string& where) {
  if (id < 0 || id > highest_id(used_)) { // holes are not counted
    throw DataError(
        {.what = fmt::format("the id {} of \"{}\" is out of place", id, token),
         .where = where});
  }
  put(token, id, where);
}

void Vocabulary::put(
    std::string_view token,
    TokenId id,
    const std::string& where) {
  const auto known = find(token);
  const auto index = static_cast<std::size_t>(id);
  const bool taken = index < size() && present_[index];
  if (known && *known == id) {
    return;
  }
  if (known || taken) {
    throw DataError(
        {.what = known
             ? fmt::format("\"{}\" has two ids, {} and {}", token, *known, id)
             : fmt::format(
                   "\"{}\" and \"{}\" have the same id {}",
                   tokens_[index],
                   token,
                   id),
         .where = where});
  }
  if (index >= size()) {
    tokens_.resize(index + 1);
    present_.resize(index + 1);
  }
  tokens_[index] = token;
  present_[index] = true;
  longest_ = std::max(longest_, token.size());
  ++used_;
  if (used_ * 2 > slots_.size()) {
    rebuild(std::bit_ceil(used_ * 2 + 16));
  } else {
    insert(id);
  }
}

void Vocabulary::insert(TokenId id) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash_bytes(tokens_[static_cast<std::size_t>(id)]) & mask;
  while (slots_[at] >= 0) {
    at = (at + 1) & mask;
  }
  slots_[at] = id;
}

void Vocabulary::rebuild(std::size_t slots) {
  slots_.assign(slots, -1);
  for (std::size_t id = 0; id < size(); ++id) {
    if (present_[id]) {
      insert(static_cast<TokenId>(id));
    }
  }
}

std::optional<TokenId> Vocabulary::find(std::string_view token) const {
  if (slots_.empty()) {
    return std::nullopt;
  }
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash_bytes(token) & mask; slots_[at] >= 0;
       at = (at + 1) & mask) {
    if (tokens_[static_cast<std::size_t>(slots_[at])] == token) {
      return slots_[at];
    }
  }
  return std::nullopt;
}

std::string_view Vocabulary::token(TokenId id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= size()) {
    throw DataError(
        {.what = fmt::format("the vocabulary has no id {}", id),
         .values = fmt::format("{} ids", size())});
  }
  return tokens_[static_cast<std::size_t>(id)];
}

Vocabulary read_vocab_json(const std::filesystem::path& file) {
  const JsonDocument document(file);
  std::vector<Vocabulary::Entry> entries;
  for (const auto& [token, id] : document.root().object("the vocabulary")) {
    entries.push_back({token, id.token_id(token)});
  }
  if (entries.empty()) {
    throw DataError(
        {.what = "the vocabulary is empty", .where = file.string()});
  }
  return Vocabulary(entries, file.string());
}

Vocabulary read_vocab_txt(const std::filesystem::path& file) {
  const std::string text = read_file(file, vocabulary_limit);
  std::string_view rest = text;
  std::vector<std::string_view> lines;
  std::unordered_map<std::string_view, std::size_t> last;
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    last[line] = lines.size();
    lines.push_back(line);
  }
  if (lines.empty()) {
    throw DataError(
        {.what = "the vocabulary is empty", .where = file.string()});
  }
  std::vector<Vocabulary::Entry> entries;
  for (std::size_t id = 0; id < lines.size(); ++id) {
    if (last[lines[id]] == id) {
      entries.push_back({lines[id], static_cast<TokenId>(id)});
    }
  }
  return Vocabulary(entries, file.string());
}

} // namespace cairn::text
