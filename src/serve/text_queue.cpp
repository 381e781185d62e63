#include "serve/text_queue.h"

#include <cairn/base/error.h>

#include <exception>
#include <utility>

namespace cairn::serve {

using generate::Ending;
using generate::TextGrowth;

TextQueue::TextQueue(generate::TextBatch batch, std::size_t most_texts)
    : batch_(std::move(batch)),
      most_texts_(most_texts),
      longest_(batch_.longest()),
      longest_source_(batch_.longest_source()),
      thread_([this](const std::stop_token& stop) { work(stop); }) {}

TextQueue::~TextQueue() {
  thread_.request_stop();
  thread_.join();
}

std::optional<std::vector<TextQueue::Ticket>> TextQueue::submit(
    std::vector<Text> texts,
    const std::function<void()>& taken) {
  std::vector<Ticket> tickets;
  {
    const std::lock_guard lock(mutex_);
    if (size_ + texts.size() > most_texts_) {
      return std::nullopt;
    }
    size_ += texts.size();
    if (taken) {
      taken();
    }
    for (Text& text : texts) {
      tickets.push_back(next_++);
      arrivals_.push_back({tickets.back(), std::move(text)});
    }
  }
  news_.notify_one();
  return tickets;
}

void TextQueue::cancel(Ticket ticket) {
  {
    const std::lock_guard lock(mutex_);
    cancelled_.push_back(ticket);
  }
  news_.notify_one();
}

std::size_t TextQueue::size() const {
  const std::lock_guard lock(mutex_);
  return size_;
}

void TextQueue::work(const std::stop_token& stop) {
  while (true) {
    std::vector<Arrival> arrivals;
    std::vector<Ticket> cancelled;
    {
      std::unique_lock lock(mutex_);
      news_.wait(lock, stop, [&] {
        return !arrivals_.empty() || !cancelled_.empty() || !batch_.empty();
      });
      if (stop.stop_requested()) {
        lock.unlock();
        fail_all("the server is stopping");
        return;
      }
      arrivals.swap(arrivals_);
      cancelled.swap(cancelled_);
    }
    take_in(std::move(arrivals));
    for (const Ticket ticket : cancelled) {
      if (const auto found = numbers_.find(ticket); found != numbers_.end()) {
        batch_.cancel(found->second);
      }
    }
    try {
      for (const TextGrowth& growth : batch_.step()) {
        report(growth);
      }
    } catch (const std::exception& error) {
      // Memory has run out, most likely. The texts cannot be continued, others
      // may be.
      for (const auto& [number, text] : running_) {
        batch_.cancel(number);
      }
      fail_all(error.what());
    }
  }
}

void TextQueue::take_in(std::vector<Arrival> arrivals) {
  for (Arrival& arrival : arrivals) {
    Text& text = arrival.text;
    try {
      const std::uint64_t number = batch_.add(std::move(text.request));
      numbers_[arrival.ticket] = number;
      running_[number] = {arrival.ticket, std::move(text.on_growth)};
    } catch (const Error& error) {
      text.on_growth({.ending = Ending::cancelled}, error.what());
      forget(1);
    }
  }
}

void TextQueue::report(const TextGrowth& growth) {
  const auto found = running_.find(growth.text);
  if (found == running_.end()) {
    return; // it has failed before
  }
  found->second.on_growth(growth, {});
  if (growth.ending) {
    numbers_.erase(found->second.ticket);
    running_.erase(found);
    forget(1);
  }
}

void TextQueue::fail_all(const std::string& why) {
  const auto failed = std::exchange(running_, {});
  numbers_.clear();
  for (const auto& [number, text] : failed) {
    text.on_growth({.text = number, .ending = Ending::cancelled}, why);
  }
  forget(failed.size());
}

void TextQueue::forget(std::size_t texts) {
  const std::lock_guard lock(mutex_);
  size_ -= texts;
}

} // namespace cairn::serve
