#include "generate/rank_order.h"

#include <cairn/base/error.h>

namespace cairn::generate {
namespace {

/// Takes numbers one after the other.
class Numbers {
 public:
  explicit Numbers(std::span<const std::int64_t> numbers) : rest_(numbers) {}

  std::int64_t next() {
    if (rest_.empty()) {
      refuse();
    }
    const std::int64_t first = rest_.front();
    rest_ = rest_.subspan(1);
    return first;
  }
  std::size_t count() {
    const std::int64_t number = next();
    if (number < 0 || number > std::ssize(rest_)) {
      refuse();
    }
    return static_cast<std::size_t>(number);
  }
  template <class Enum>
  Enum choice(Enum last) {
    const std::int64_t number = next();
    if (number < 0 || number > static_cast<std::int64_t>(last)) {
      refuse();
    }
    return static_cast<Enum>(number);
  }
  void require_end() const {
    if (!rest_.empty()) {
      refuse();
    }
  }

 private:
  [[noreturn]] static void refuse() {
    throw InternalError({.what = "ranks were sent something that is no order"});
  }

  std::span<const std::int64_t> rest_;
};

} // namespace

std::vector<std::int64_t> RankOrder::numbers() const {
  std::vector<std::int64_t> all{
      static_cast<std::int64_t>(kind),
      decoder,
      most_texts,
      page_tokens,
      most_pages,
      std::ssize(changes),
      std::ssize(tokens)};
  for (const CacheChange& each : changes) {
    all.insert(
        all.end(),
        {static_cast<std::int64_t>(each.kind),
         static_cast<std::int64_t>(each.place),
         static_cast<std::int64_t>(each.from),
         each.tokens});
  }
  for (const TokenRow& each : tokens) {
    all.insert(
        all.end(),
        {static_cast<std::int64_t>(each.place),
         each.token,
         each.position,
         each.scored ? 1 : 0,
         each.text_length});
  }
  return all;
}

RankOrder RankOrder::from(std::span<const std::int64_t> all) {
  Numbers numbers(all);
  RankOrder order;
  order.kind = numbers.choice(Kind::end);
  order.decoder = numbers.next();
  order.most_texts = numbers.next();
  order.page_tokens = numbers.next();
  order.most_pages = numbers.next();
  order.changes.resize(numbers.count());
  order.tokens.resize(numbers.count());
  for (CacheChange& each : order.changes) {
    each.kind = numbers.choice(CacheChange::Kind::copy);
    each.place = static_cast<std::size_t>(numbers.next());
    each.from = static_cast<std::size_t>(numbers.next());
    each.tokens = numbers.next();
  }
  for (TokenRow& each : order.tokens) {
    each.place = static_cast<std::size_t>(numbers.next());
    each.token = numbers.next();
    each.position = numbers.next();
    each.scored = numbers.next() != 0;
    each.text_length = numbers.next();
  }
  numbers.require_end();
  return order;
}

} // namespace cairn::generate
