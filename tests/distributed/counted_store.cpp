#include "distributed/counted_store.h"

#include "distributed/backends/c10d_store.h"

#include <utility>

namespace cairn::testing {

CountedStore::CountedStore(
    std::unique_ptr<distributed::Store> store,
    std::shared_ptr<StoreTally> tally)
    : store_(std::move(store)), tally_(std::move(tally)) {
  ++tally_->connections;
}

void CountedStore::count(std::uint64_t requests, std::uint64_t keys) {
  tally_->requests += requests;
  tally_->keys += keys;
}

void CountedStore::set(const std::string& key, const std::string& value) {
  count(1, 1);
  store_->set(key, value);
}

// c10d checks that the key is there, waits for it and then reads it.
std::optional<std::string> CountedStore::get(const std::string& key) {
  auto value = store_->get(key);
  count(value ? 3 : 1, value ? 3 : 1);
  return value;
}

std::string CountedStore::set_once(
    const std::string& key,
    const std::string& value) {
  count(1, 1);
  return store_->set_once(key, value);
}

void CountedStore::erase(const std::string& key) {
  count(1, 1);
  store_->erase(key);
}

bool CountedStore::wait(
    const std::vector<std::string>& keys,
    std::chrono::milliseconds timeout) {
  count(1, keys.size());
  const bool came = store_->wait(keys, timeout);
  if (!came) {
    count(1, 0); // c10d takes the question back
  }
  return came;
}

std::unique_ptr<distributed::Store> CountedStore::clone() {
  count(1, 1); // the store asks whether its host is there
  return std::make_unique<CountedStore>(store_->clone(), tally_);
}

void CountedStore::read_all(const std::vector<std::string>& keys) {
  count(2, 2 * keys.size());
  dynamic_cast<distributed::C10dStore&>(*store_).raw()->multiGet(keys);
}

} // namespace cairn::testing
