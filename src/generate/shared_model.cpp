#include <cairn/generate/shared_model.h>

#include "generate/cached_decoder.h"
#include "generate/shared_core.h"

#include <cairn/base/error.h>

#include <exception>
#include <map>

namespace cairn::generate {
namespace {

using Decoders = std::map<std::int64_t, CachedDecoder>;

CachedDecoder& decoder_of(Decoders& decoders, const RankOrder& order) {
  const auto found = decoders.find(order.decoder);
  if (found == decoders.end()) {
    throw InternalError({.what = "an order for a decoder that was not made"});
  }
  return found->second;
}

void apply(const CacheChange& change, CachedDecoder& decoder) {
  bool room = true;
  switch (change.kind) {
    case CacheChange::Kind::reserve:
      room = decoder.reserve(change.place, change.tokens);
      break;
    case CacheChange::Kind::release:
      decoder.release(change.place);
      break;
    case CacheChange::Kind::copy:
      room = decoder.copy(change.from, change.place, change.tokens);
      break;
  }
  if (!room) {
    throw InternalError(
        {.what = "a rank has no room where the first rank has"});
  }
}

} // namespace

SharedModel::SharedModel(
    const distributed::World& world,
    const models::StoredModel& stored,
    const SharedModelOptions& options)
    : core_(std::make_shared<Core>(world, stored, options)) {}

const models::ModelDescription& SharedModel::description() const {
  return core_->description();
}

void SharedModel::follow() const {
  Decoders decoders;
  try {
    while (true) {
      const RankOrder order = core_->hear();
      switch (order.kind) {
        case RankOrder::Kind::nothing:
          break;
        case RankOrder::Kind::make:
          decoders.try_emplace(
              order.decoder,
              core_->description(),
              core_->part(),
              core_->weights(),
              core_->cache_of(order.page_tokens, order.most_pages),
              order.most_texts,
              core_->links());
          break;
        case RankOrder::Kind::drop:
          decoders.erase(order.decoder);
          break;
        case RankOrder::Kind::step: {
          CachedDecoder& decoder = decoder_of(decoders, order);
          for (const CacheChange& change : order.changes) {
            apply(change, decoder);
          }
          decoder.compute(order.tokens);
          break;
        }
        case RankOrder::Kind::end:
          return;
      }
    }
  } catch (...) {
    core_->fail(std::current_exception());
    throw;
  }
}

bool SharedModel::has_failed() const {
  return core_->has_failed();
}

void SharedModel::throw_if_failed() const {
  core_->throw_if_failed();
}

} // namespace cairn::generate
