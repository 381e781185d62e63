#include "checkpoints/dcp/metadata.h"

#include "checkpoints/pickle/pickle_reader.h"
#include "checkpoints/pickle/python_node.h"
#include "checkpoints/tensors/in_file.h"
#include "checkpoints/torch/torch_types.h"

#include <cairn/base/error.h>
#include <cairn/base/mapped_file.h>
#include <cairn/checkpoints/python_value.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

namespace cairn::checkpoints::dcp {

namespace {

namespace fs = std::filesystem;
using Kind = PythonValue::Kind;
using Sizes = std::vector<std::int64_t>;

constexpr std::size_t most_bytes = std::size_t{1} << 30;
constexpr std::size_t most_values = 20'000'000;
constexpr std::size_t most_dimensions = 64;

[[noreturn]] void unfit(const std::string& name, std::string_view why) {
  throw CheckpointError(
      {.what = "a description that does not fit",
       .values = fmt::format("{}: {}", name, why)});
}

PythonValue unpickled(const fs::path& file) {
  const MappedFile mapped(file);
  if (mapped.bytes().size() > most_bytes) {
    throw CheckpointError(
        {.what = "the description of the tensors is too large",
         .values = fmt::format("{} bytes", mapped.bytes().size())});
  }
  auto nodes = std::make_shared<PythonNodes>(most_values);
  const auto refuse = [](const PythonValue::Node&) -> const PythonValue::Node* {
    throw CheckpointError({.what = "a storage where none can be"});
  };
  const PythonValue::Node* root =
      read_pickle(mapped.bytes(), *nodes, refuse).root;
  return PythonValue(std::shared_ptr<const PythonValue::Node>(nodes, root));
}

/// Sizes or offsets: whole numbers that are not negative.
Sizes sizes_of(const PythonValue& value, const std::string& name) {
  Sizes sizes;
  for (const PythonValue& item : value.items()) {
    sizes.push_back(item.integer());
    if (sizes.back() < 0 || sizes.size() > most_dimensions) {
      unfit(name, "a size that no tensor has");
    }
  }
  return sizes;
}

std::int64_t elements_of(const Sizes& sizes, const std::string& name) {
  std::int64_t elements = 1;
  for (const std::int64_t size : sizes) {
    if (__builtin_mul_overflow(elements, size, &elements)) {
      unfit(name, "more elements than can be");
    }
  }
  return elements;
}

/// torch.float32 of TensorProperties, whose state is a tuple or a dict.
at::ScalarType type_of(const PythonValue& properties, const std::string& name) {
  const PythonValue state = properties.state();
  const PythonValue dtype = state.is(Kind::tuple) && state.size() > 0
      ? state.items().front()
      : state.is(Kind::dict) ? state.at("dtype")
                             : PythonValue();
  constexpr std::string_view torch = "torch.";
  const std::string said = dtype.is(Kind::global) ? dtype.type_name() : "";
  const auto type = said.starts_with(torch)
      ? type_of_dtype(std::string_view(said).substr(torch.size()))
      : std::nullopt;
  if (!type) {
    unfit(name, fmt::format("the type {}", dtype.describe(0)));
  }
  return *type;
}

Piece piece_of(const PythonValue& info, const std::string& name) {
  Piece piece{.file = info.at("relative_path").text()};
  const std::int64_t offset = info.at("offset").integer();
  const std::int64_t length = info.at("length").integer();
  if (offset < 0 || length < 0) {
    unfit(name, "a place before the file");
  }
  piece.offset = static_cast<std::uint64_t>(offset);
  piece.length = static_cast<std::uint64_t>(length);
  if (piece.file.empty() || piece.file == "." || piece.file == ".." ||
      piece.file.find('/') != std::string::npos ||
      piece.file.find('\0') != std::string::npos) {
    unfit(name, "a file that is not beside it");
  }
  const auto changes = info.find("transform_descriptors");
  if (changes && !changes->is_none() && changes->size() > 0) {
    unfit(name, "it is compressed or changed in another way");
  }
  return piece;
}

/// Places by name, and for tensors by the beginning of the chunk.
class Places {
 public:
  explicit Places(const PythonValue& storage_data) {
    for (const auto& [key, value] : storage_data.entries()) {
      const std::string name = key.at("fqn").text();
      const auto offset = key.find("offset");
      Sizes begin;
      if (offset && !offset->is_none()) {
        begin = sizes_of(*offset, name);
      }
      places_.insert_or_assign(
          std::pair(name, std::move(begin)),
          piece_of(value, name));
    }
  }

  const Piece& at(const std::string& name, const Sizes& begin) const {
    const auto found = places_.find({name, begin});
    if (found == places_.end()) {
      unfit(
          name,
          fmt::format(
              "no place for the chunk at [{}]",
              fmt::join(begin, ", ")));
    }
    return found->second;
  }

 private:
  std::map<std::pair<std::string, Sizes>, Piece> places_;
};

/// Checks that the chunks, which are sorted by their beginnings, tile the
/// tensor: along each dimension in turn, those at one place are equally large,
/// and the next ones follow without a gap.
void expect_tiles(
    std::span<const Chunk> chunks,
    std::size_t dim,
    const Sizes& shape,
    const std::string& name) {
  if (dim == shape.size()) {
    if (chunks.size() != 1) {
      unfit(name, "a chunk is there twice");
    }
    return;
  }
  std::int64_t covered = 0;
  while (!chunks.empty()) {
    const std::int64_t begin = chunks.front().begin[dim];
    const std::int64_t size = chunks.front().size[dim];
    const auto next = std::ranges::find_if(chunks, [&](const Chunk& chunk) {
      return chunk.begin[dim] != begin;
    });
    const auto here = std::span(chunks.begin(), next);
    const bool equal = std::ranges::all_of(here, [&](const Chunk& chunk) {
      return chunk.size[dim] == size;
    });
    if (begin != covered || !equal) {
      unfit(name, "the chunks leave gaps or overlap");
    }
    covered += size;
    expect_tiles(here, dim + 1, shape, name);
    chunks = std::span(next, chunks.end());
  }
  if (covered != shape[dim]) {
    unfit(name, "the chunks leave gaps or overlap");
  }
}

TensorInfo tensor_of(
    const PythonValue& value,
    const std::string& name,
    const Places& places) {
  TensorInfo info{
      .type = type_of(value.at("properties"), name),
      .shape = sizes_of(value.at("size"), name)};
  const std::int64_t elements = elements_of(info.shape, name);
  for (const PythonValue& said : value.at("chunks").items()) {
    Chunk chunk{
        .begin = sizes_of(said.at("offsets"), name),
        .size = sizes_of(said.at("sizes"), name)};
    if (chunk.begin.size() != info.shape.size() ||
        chunk.size.size() != info.shape.size()) {
      unfit(name, "a chunk of another number of dimensions");
    }
    for (std::size_t d = 0; d < info.shape.size(); ++d) {
      if (chunk.begin[d] > info.shape[d] ||
          chunk.size[d] > info.shape[d] - chunk.begin[d]) {
        unfit(name, "a chunk reaches beyond the tensor");
      }
    }
    if (elements_of(chunk.size, name) > 0) {
      chunk.piece = places.at(name, chunk.begin);
      info.chunks.push_back(std::move(chunk));
    }
  }
  std::ranges::sort(info.chunks, {}, &Chunk::begin);
  if (elements > 0) {
    expect_tiles(info.chunks, 0, info.shape, name);
  }
  return info;
}

bool is_tensor(const PythonValue& value) {
  return value.type_name().ends_with(".TensorStorageMetadata");
}

} // namespace

Metadata read_metadata(const fs::path& file) {
  return in_file(file, [&] {
    const PythonValue root = unpickled(file);
    if (!root.is(Kind::object) || !root.type_name().ends_with(".Metadata")) {
      throw CheckpointError(
          {.what = "not a description of torch.distributed.checkpoint"});
    }
    const Places places(root.at("storage_data"));
    Metadata metadata;
    for (const auto& [key, value] : root.at("state_dict_metadata").entries()) {
      const std::string& name = key.text();
      if (value.is(Kind::object) && is_tensor(value)) {
        metadata.tensors.insert_or_assign(name, tensor_of(value, name, places));
      } else {
        metadata.objects.insert_or_assign(name, places.at(name, {}));
      }
    }
    return metadata;
  });
}

} // namespace cairn::checkpoints::dcp
