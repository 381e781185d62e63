#include "evaluate/finetune/sample_tokens.h"

#include <algorithm>
#include <cstddef>

namespace cairn::evaluate {
namespace {

/// Writes tokens one by one, and none behind the end.
class RowWriter {
 public:
  explicit RowWriter(const SampleRow& row) : row_(row) {}

  std::size_t size() const { return at_; }
  void add(text::TokenId token, std::int64_t type) {
    if (at_ < row_.tokens.size()) {
      row_.tokens[at_] = token;
      row_.types[at_] = type;
      row_.mask[at_] = 1;
    }
    ++at_;
  }
  void add(const EncodedTexts::Ids& ids, std::int64_t type) {
    for (const text::TokenId id : ids) {
      add(id, type);
    }
  }
  void cut(std::size_t size) { at_ = size; }
  void pad(text::TokenId token) {
    for (; at_ < row_.tokens.size(); ++at_) {
      row_.tokens[at_] = token;
      row_.types[at_] = 0;
      row_.mask[at_] = 0;
    }
  }

 private:
  const SampleRow& row_;
  std::size_t at_ = 0;
};

} // namespace

void write_sample(
    const EncodedTexts& texts,
    const TaskTokenizer& special,
    const SampleRow& row) {
  RowWriter writer(row);
  writer.add(special.classify, 0);
  writer.add(texts.a, 0);
  writer.add(special.separator, 0);
  if (texts.b) {
    writer.add(*texts.b, 1);
  }
  // A text alone has its [SEP] already, unless it was cut off.
  const std::size_t length = row.tokens.size();
  const bool is_cut = writer.size() >= length;
  if (is_cut) {
    writer.cut(length - 1);
  }
  if (texts.b || is_cut) {
    writer.add(special.separator, texts.b ? 1 : 0);
  }
  writer.pad(special.pad);
}

} // namespace cairn::evaluate
