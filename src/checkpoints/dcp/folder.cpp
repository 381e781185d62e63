#include "checkpoints/dcp/folder.h"

#include "checkpoints/tensors/in_file.h"
#include "checkpoints/torch/torch_part.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <cairn/base/mapped_file.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace cairn::checkpoints::dcp {

namespace fs = std::filesystem;

struct Folder::Files {
  fs::path folder;
  Metadata metadata;
  std::map<std::string, std::shared_ptr<const MappedFile>> mapped;

  PythonValue read(const Piece& piece) const {
    const auto& file = mapped.at(piece.file);
    return read_torch_part(
        file,
        file->bytes().subspan(piece.offset, piece.length),
        folder / piece.file);
  }
};

namespace {

/// A chunk of what is read, and its first row there.
struct Part {
  const Chunk* chunk = nullptr;
  std::int64_t begin = 0;
  std::int64_t rows = 1;
};

/// Reads rows of a tensor or of one layer of it.
template <typename Files>
class RowReader {
 public:
  /// `layer` is an index along the first dimension, or -1 for all of it.
  RowReader(
      std::shared_ptr<const Files> files,
      const TensorInfo& info,
      std::int64_t layer)
      : files_(std::move(files)), info_(&info), layer_(layer) {
    const std::size_t rows = layer < 0 ? 0 : 1;
    shape_.assign(
        info.shape.begin() + static_cast<std::ptrdiff_t>(rows),
        info.shape.end());
    for (const Chunk& chunk : info.chunks) {
      const bool here = layer < 0 ||
          (chunk.begin[0] <= layer && layer < chunk.begin[0] + chunk.size[0]);
      if (here) {
        parts_.push_back(
            {&chunk,
             shape_.empty() ? 0 : chunk.begin[rows],
             shape_.empty() ? 1 : chunk.size[rows]});
      }
    }
    loaded_.resize(parts_.size());
  }

  at::Tensor operator()(std::int64_t begin, std::int64_t end) {
    const auto met = [&](const Part& part) {
      return part.begin < end && begin < part.begin + part.rows;
    };
    if (std::ranges::count_if(parts_, met) == 1) {
      const auto part = static_cast<std::size_t>(
          std::ranges::find_if(parts_, met) - parts_.begin());
      const at::Tensor& values = loaded(part);
      if (values.sizes().vec() == shape_) {
        return shape_.empty() ? values : values.narrow(0, begin, end - begin);
      }
    }
    std::vector<std::int64_t> shape = shape_;
    shape[0] = end - begin;
    at::Tensor result = at::empty(shape, info_->type);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (met(parts_[i])) {
        copy(i, begin, end, result);
      }
    }
    return result;
  }

 private:
  void copy(
      std::size_t number,
      std::int64_t begin,
      std::int64_t end,
      const at::Tensor& result) {
    const Part& part = parts_[number];
    at::Tensor from = loaded(number);
    at::Tensor to = result;
    const std::int64_t first = std::max(begin, part.begin);
    const std::int64_t last = std::min(end, part.begin + part.rows);
    from = from.narrow(0, first - part.begin, last - first);
    to = to.narrow(0, first - begin, last - first);
    const std::size_t skipped = layer_ < 0 ? 0 : 1;
    for (std::size_t d = 1; d < shape_.size(); ++d) {
      to = to.narrow(
          static_cast<std::int64_t>(d),
          part.chunk->begin[d + skipped],
          part.chunk->size[d + skipped]);
    }
    to.copy_(from);
  }

  /// The part's values, without the dimension of the layers.
  const at::Tensor& loaded(std::size_t number) {
    at::Tensor& values = loaded_[number];
    if (!values.defined()) {
      const Chunk& chunk = *parts_[number].chunk;
      values = in_file(files_->folder / chunk.piece.file, [&] {
        return values_of(chunk);
      });
      if (layer_ >= 0) {
        values = values.select(0, layer_ - chunk.begin[0]);
      }
    }
    return values;
  }

  at::Tensor values_of(const Chunk& chunk) const {
    const PythonValue value = files_->read(chunk.piece);
    const StoredTensor& stored = value.stored();
    if (stored.type != info_->type || stored.sizes != chunk.size) {
      throw CheckpointError(
          {.what = "a chunk differs from its description",
           .values = fmt::format(
               "{} [{}] at byte {}, not {} [{}]",
               c10::toString(stored.type),
               fmt::join(stored.sizes, ", "),
               chunk.piece.offset,
               c10::toString(info_->type),
               fmt::join(chunk.size, ", "))});
    }
    return value.borrowed_tensor();
  }

  std::shared_ptr<const Files> files_; ///< owner of `info_` and of the chunks
  const TensorInfo* info_;
  std::int64_t layer_;
  std::vector<std::int64_t> shape_;
  std::vector<Part> parts_;
  std::vector<at::Tensor> loaded_;
};

const TensorInfo& info_of(const Metadata& metadata, const std::string& name) {
  const auto found = metadata.tensors.find(name);
  if (found == metadata.tensors.end()) {
    throw CheckpointError({.what = "no such tensor", .values = name});
  }
  return found->second;
}

} // namespace

bool is_dcp(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / metadata_name, error);
}

bool is_training_state(const std::string& name) {
  return name.starts_with("optimizer.") || name.starts_with("optim.") ||
      name.starts_with("lr_scheduler.") || name.starts_with("train_state.") ||
      name.starts_with("dataloader.");
}

std::optional<std::int64_t> step_of(const fs::path& folder) {
  constexpr std::string_view before = "step-";
  const std::string name = folder.filename().string();
  std::int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = name.starts_with(before)
      ? std::from_chars(name.data() + before.size(), end, step)
      : std::from_chars_result{end, std::errc::invalid_argument};
  return error == std::errc() && rest == end && step >= 0 ? std::optional(step)
                                                          : std::nullopt;
}

std::optional<fs::path> newest_step(const fs::path& folder) {
  if (is_dcp(folder)) {
    return folder;
  }
  std::optional<fs::path> newest;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto step = step_of(entry->path());
    if (step && is_dcp(entry->path()) && (!newest || step_of(*newest) < step)) {
      newest = entry->path();
    }
  }
  return newest;
}

Folder::Folder(const fs::path& folder) {
  auto files = std::make_shared<Files>();
  files->folder = folder;
  files->metadata = read_metadata(folder / metadata_name);
  const auto map = [&](const Piece& piece) {
    auto& mapped = files->mapped[piece.file];
    if (!mapped) {
      mapped = std::make_shared<const MappedFile>(folder / piece.file);
    }
    const std::uint64_t size = mapped->bytes().size();
    if (piece.offset > size || piece.length > size - piece.offset) {
      throw CheckpointError(
          {.what = "the file is too short",
           .where = (folder / piece.file).string(),
           .values = fmt::format(
               "{} bytes at {} are wanted, it has {}",
               piece.length,
               piece.offset,
               size),
           .remedy = "copy or save it again"});
    }
  };
  for (const auto& [name, info] : files->metadata.tensors) {
    for (const Chunk& chunk : info.chunks) {
      map(chunk.piece);
    }
  }
  for (const auto& [name, piece] : files->metadata.objects) {
    map(piece);
  }
  files_ = std::move(files);
}

const Metadata& Folder::metadata() const {
  return files_->metadata;
}

LazyTensor Folder::tensor(const std::string& name) const {
  const TensorInfo& info = info_of(files_->metadata, name);
  LazyTensor result;
  result.type = info.type;
  result.shape = info.shape;
  result.open = [files = files_, &info]() -> LazyTensor::Rows {
    return RowReader<Files>(files, info, -1);
  };
  return result;
}

LazyTensor Folder::layer(const std::string& name, std::int64_t layer) const {
  const TensorInfo& info = info_of(files_->metadata, name);
  if (layer < 0 || info.shape.empty() || layer >= info.shape[0]) {
    throw CheckpointError(
        {.what = "no such layer",
         .values = fmt::format("{} of {}", layer, name)});
  }
  LazyTensor result;
  result.type = info.type;
  result.shape.assign(info.shape.begin() + 1, info.shape.end());
  result.open = [files = files_, &info, layer]() -> LazyTensor::Rows {
    return RowReader<Files>(files, info, layer);
  };
  return result;
}

PythonValue Folder::object(const std::string& name) const {
  const auto found = files_->metadata.objects.find(name);
  if (found == files_->metadata.objects.end()) {
    throw CheckpointError({.what = "no such object", .values = name});
  }
  return files_->read(found->second);
}

} // namespace cairn::checkpoints::dcp
