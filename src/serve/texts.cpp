#include "serve/texts.h"

#include "serve/api_error.h"

#include <mutex>
#include <utility>

namespace cairn::serve {
namespace {

using generate::Ending;
using generate::TextGrowth;

/// Tokens of the prompt that a client sent.
std::int64_t read_tokens(const generate::TextRequest& request) {
  return std::ssize(request.source.empty() ? request.prompt : request.source);
}

/// The texts of a request while they grow. The members
/// before the mutex belong to the queue's thread.
class TextsUnderWay : public std::enable_shared_from_this<TextsUnderWay> {
 public:
  TextsUnderWay(
      Service& service,
      std::shared_ptr<Answering> answering,
      const std::vector<AskedText>& asked,
      TextsCallbacks callbacks)
      : service_(service),
        answering_(std::move(answering)),
        callbacks_(std::move(callbacks)),
        open_(asked.size()) {
    for (const AskedText& each : asked) {
      // A T5 writes another text than the one that it reads.
      const auto continued = each.request.source.empty()
          ? each.request.prompt
          : std::vector<std::int64_t>();
      texts_.push_back(
          {.prompt = continued,
           .prompt_tokens = read_tokens(each.request),
           .shown = ShownText(*service.tokenizer, continued, each.stops)});
      ends_after_.push_back(each.ends_after);
    }
  }

  void grow(
      std::size_t index,
      const TextGrowth& growth,
      const std::string& failure);
  void set_tickets(std::vector<TextQueue::Ticket> tickets) {
    const std::lock_guard lock(mutex_);
    tickets_ = std::move(tickets);
    for (const std::size_t index : early_) {
      service_.queue->cancel(tickets_[index]);
    }
  }
  void cancel_all() {
    const std::lock_guard lock(mutex_);
    for (const TextQueue::Ticket ticket : tickets_) {
      service_.queue->cancel(ticket);
    }
  }

 private:
  void cancel(std::size_t index) {
    const std::lock_guard lock(mutex_);
    if (tickets_.empty()) {
      early_.push_back(index);
    } else {
      service_.queue->cancel(tickets_[index]);
    }
  }
  void take(std::size_t index, const TextGrowth& growth, std::string& shown);
  void end(Text& text, bool by_length);

  Service& service_;
  std::shared_ptr<Answering> answering_;
  TextsCallbacks callbacks_;
  std::vector<Text> texts_;
  std::vector<decltype(AskedText::ends_after)> ends_after_;
  std::size_t open_;
  bool failed_ = false;
  bool any_token_ = false;
  std::mutex mutex_;
  std::vector<TextQueue::Ticket> tickets_;
  std::vector<std::size_t> early_; ///< texts that ended before their tickets
};

void TextsUnderWay::grow(
    std::size_t index,
    const TextGrowth& growth,
    const std::string& failure) {
  Text& text = texts_[index];
  if (!failure.empty()) {
    if (!std::exchange(failed_, true)) {
      callbacks_.failed(failure);
    }
    return;
  }
  if (failed_ || text.ended) {
    return;
  }
  const std::size_t from = text.tokens.size();
  std::string shown;
  take(index, growth, shown);
  if (growth.ending == Ending::cancelled && !text.ended) {
    service_.metrics.cancelled_text();
    text.ended = true; // the client has left: nobody is told
    failed_ = true;
    return;
  }
  if (growth.ending && !text.ended) {
    shown += text.shown.finish();
    end(text, growth.ending == Ending::length);
  }
  if (callbacks_.grown && (text.ended || text.tokens.size() > from)) {
    callbacks_.grown(text, index, std::move(shown), from);
  }
  if (text.ended && --open_ == 0) {
    callbacks_.done(texts_);
  }
}

void TextsUnderWay::take(
    std::size_t index,
    const TextGrowth& growth,
    std::string& shown) {
  Text& text = texts_[index];
  for (std::size_t i = 0; i < growth.tokens.size() && !text.ended; ++i) {
    const generate::ScoredToken& token = growth.tokens[i];
    if (i < growth.prompt_tokens) {
      text.prompt_scores.push_back(token);
      continue;
    }
    if (!std::exchange(any_token_, true)) {
      service_.metrics.first_token(answering_->seconds());
    }
    service_.metrics.new_tokens(1);
    if (growth.ending == Ending::end_token && i + 1 == growth.tokens.size()) {
      break; // the end itself
    }
    text.tokens.push_back(token);
    shown += text.shown.add(token.id);
    const auto& ends_after = ends_after_[index];
    if (text.shown.stopped() || (ends_after && ends_after(text.tokens))) {
      shown += text.shown.finish();
      end(text, false);
      cancel(index);
    }
  }
}

void TextsUnderWay::end(Text& text, bool by_length) {
  text.ended = true;
  text.by_length = by_length;
  service_.metrics.finished_text(answering_->seconds());
}

} // namespace

void start_texts(
    Service& service,
    const std::shared_ptr<Answering>& answering,
    std::vector<AskedText> asked,
    TextsCallbacks callbacks) {
  const auto started = callbacks.started;
  const auto texts = std::make_shared<TextsUnderWay>(
      service,
      answering,
      asked,
      std::move(callbacks));
  std::vector<TextQueue::Text> queued;
  std::int64_t prompt_tokens = 0;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    prompt_tokens += read_tokens(asked[i].request);
    queued.push_back(
        {std::move(asked[i].request),
         [texts, i](const TextGrowth& growth, const std::string& failure) {
           texts->grow(i, growth, failure);
         }});
  }
  // Said first, because the queue's thread may be quick.
  auto tickets = service.queue->submit(std::move(queued), started);
  if (!tickets) {
    throw ApiError(429, "too many texts are waiting; try again later");
  }
  service.metrics.prompt_tokens(prompt_tokens);
  texts->set_tickets(*std::move(tickets));
  answering->exchange().when_gone([texts] { texts->cancel_all(); });
}

} // namespace cairn::serve
