#include <cairn/base/error.h>
#include <cairn/data/indexed_writer.h>

#include "base/internal/file_calls.h"
#include "base/internal/file_error.h"
#include "base/internal/sync_file.h"
#include "data/indexed/index_header.h"
#include "data/preprocess/partial_file.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>
#include <vector>

namespace cairn::data {

struct IndexedWriter::State {
  State(std::filesystem::path where, Options chosen)
      : prefix(std::move(where)),
        options(chosen),
        tokens(tokens_path(prefix)),
        index(index_path(prefix)),
        lengths(open_unnamed_file(index.path())),
        documents(open_unnamed_file(index.path())) {}

  template <typename T, typename Each>
  void replay(BufferedFile& file, const Each& each) {
    file.replay(sizeof(T), [&](std::span<const std::byte> bytes) {
      const PackedArray<T> values(bytes.data(), bytes.size() / sizeof(T));
      for (std::size_t i = 0; i < values.size(); ++i) {
        each(values[i]);
      }
    });
  }
  void copy(BufferedFile& file) {
    file.replay(sizeof(std::int64_t), [&](std::span<const std::byte> bytes) {
      index.file().write(bytes);
    });
  }
  void write_mmap_index();
  void write_classic_index();
  void write_documents();
  void remove_old_index() const;

  std::filesystem::path prefix;
  Options options;
  PartialFile tokens;
  PartialFile index;
  BufferedFile lengths;   ///< int32 each
  BufferedFile documents; ///< int64 each: the sequences up to its end
  std::uint64_t sequence_count = 0;
  std::uint64_t document_count = 0;
  std::uint64_t token_count = 0;
  bool finished = false;
  std::vector<std::byte> scratch;
};

void IndexedWriter::State::write_mmap_index() {
  auto& out = index.file();
  out.write(std::as_bytes(std::span(mmap_magic)));
  out.write_value(index_version);
  out.write_value(static_cast<std::uint8_t>(options.type));
  out.write_value(sequence_count);
  out.write_value(document_count + 1);
  copy(lengths);
  std::int64_t offset = 0;
  const auto size = static_cast<std::int64_t>(size_of(options.type));
  replay<std::int32_t>(lengths, [&](std::int32_t length) {
    out.write_value(offset);
    offset += length * size;
  });
  write_documents();
}

void IndexedWriter::State::write_classic_index() {
  auto& out = index.file();
  out.write(std::as_bytes(std::span(classic_magic)));
  out.write_value(index_version);
  out.write_value(static_cast<std::uint64_t>(options.type));
  out.write_value(static_cast<std::uint64_t>(size_of(options.type)));
  out.write_value(sequence_count);
  out.write_value(sequence_count);
  out.write_value(document_count + 1);
  for (std::uint64_t i = 0; i <= sequence_count; ++i) {
    out.write_value(i);
  }
  std::int64_t offset = 0;
  out.write_value(offset);
  replay<std::int32_t>(lengths, [&](std::int32_t length) {
    offset += length;
    out.write_value(offset);
  });
  replay<std::int32_t>(lengths, [&](std::int32_t length) {
    out.write_value(std::int64_t{length});
  });
  write_documents();
}

void IndexedWriter::State::write_documents() {
  index.file().write_value(std::int64_t{0});
  copy(documents);
}

void IndexedWriter::State::remove_old_index() const {
  if (file_calls().unlinkat(AT_FDCWD, index.path().c_str(), 0) == 0) {
    sync_folder_of(index.path()); // before its tokens are replaced
  } else if (errno != ENOENT) {
    throw file_error("replace", index.path(), errno);
  }
}

IndexedWriter::IndexedWriter(std::filesystem::path prefix, Options options)
    : state_(std::make_unique<State>(std::move(prefix), options)) {}

IndexedWriter::~IndexedWriter() = default;
IndexedWriter::IndexedWriter(IndexedWriter&&) noexcept = default;

const std::filesystem::path& IndexedWriter::prefix() const noexcept {
  return state_->prefix;
}
TokenType IndexedWriter::type() const noexcept {
  return state_->options.type;
}
std::uint64_t IndexedWriter::sequence_count() const noexcept {
  return state_->sequence_count;
}
std::uint64_t IndexedWriter::document_count() const noexcept {
  return state_->document_count;
}
std::uint64_t IndexedWriter::token_count() const noexcept {
  return state_->token_count;
}

void IndexedWriter::add_sequence(std::span<const std::int32_t> ids) {
  State& state = *state_;
  state.scratch.clear();
  append_ids(state.options.type, ids, state.scratch);
  const std::int32_t length = sequence_length(ids.size());
  state.tokens.file().write(state.scratch);
  state.lengths.write_value(length);
  ++state.sequence_count;
  state.token_count += ids.size();
}

void IndexedWriter::end_document() {
  state_->documents.write_value(
      static_cast<std::int64_t>(state_->sequence_count));
  ++state_->document_count;
}

void IndexedWriter::append(const SequenceBlock& block) {
  State& state = *state_;
  state.tokens.file().write(block.tokens);
  state.tokens.file().write_behind();
  state.lengths.write_values<std::int32_t>(block.lengths);
  for (const std::int64_t end : block.document_ends) {
    state.documents.write_value(
        static_cast<std::int64_t>(state.sequence_count) + end);
  }
  state.sequence_count += block.lengths.size();
  state.document_count += block.document_ends.size();
  state.token_count += block.tokens.size() / size_of(state.options.type);
}

void IndexedWriter::finish() {
  State& state = *state_;
  if (state.finished) {
    return;
  }
  if (state.options.format == IndexFormat::mmap) {
    state.write_mmap_index();
  } else {
    state.write_classic_index();
  }
  state.tokens.sync();
  state.index.sync();
  state.finished = true;
}

void IndexedWriter::commit() {
  commit(std::span(this, 1));
}

void IndexedWriter::commit(std::span<IndexedWriter> writers) {
  for (auto& writer : writers) {
    writer.finish();
  }
  for (auto& writer : writers) {
    writer.state_->remove_old_index();
  }
  try {
    for (auto& writer : writers) {
      writer.state_->tokens.publish();
    }
    for (auto& writer : writers) {
      writer.state_->index.publish();
    }
    for (auto& writer : writers) {
      sync_folder_of(writer.state_->index.path());
    }
  } catch (...) {
    for (auto& writer : writers) {
      writer.state_->index.retract();
      writer.state_->tokens.retract();
    }
    throw;
  }
}

} // namespace cairn::data
