#include "checkpoints/dcp/write.h"

#include "checkpoints/dcp/metadata.h"
#include "checkpoints/pickle/pickle_writer.h"
#include "checkpoints/tensors/lazy_operations.h"
#include "checkpoints/tensors/make_folder.h"
#include "checkpoints/torch/torch_part.h"
#include "checkpoints/torch/torch_types.h"

#include <c10/util/accumulate.h>
#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <fmt/format.h>

#include <optional>
#include <string_view>

namespace cairn::checkpoints::dcp {

namespace {

namespace fs = std::filesystem;
using Sizes = std::vector<std::int64_t>;

constexpr const char* classes = "torch.distributed.checkpoint.metadata";
constexpr const char* data_file = "__0_0.distcp";

PythonValue size_value(const Sizes& sizes) {
  std::vector<PythonValue> items;
  for (const std::int64_t size : sizes) {
    items.push_back(PythonValue::integer(size));
  }
  return PythonValue::call(
      "torch",
      "Size",
      {PythonValue::tuple(std::move(items))});
}

/// The state of TensorProperties is a tuple: dtype, layout, requires_grad,
/// memory format, pinned.
PythonValue properties_of(at::ScalarType type) {
  return PythonValue::object_of_state(
      classes,
      "TensorProperties",
      PythonValue::tuple(
          {PythonValue::global("torch", std::string(dtype_of(type))),
           PythonValue::call(
               "torch.serialization",
               "_get_layout",
               {PythonValue::text("torch.strided")}),
           PythonValue::boolean(false),
           PythonValue::call(
               classes,
               "_MEM_FORMAT_ENCODING",
               {PythonValue::integer(0)}),
           PythonValue::boolean(false)}));
}

/// The chunk's sizes, with the dimensions of size 1 that it lacks.
Sizes sizes_of(const NewTensor& tensor, const LazyTensor& chunk) {
  Sizes sizes(tensor.shape.size() - chunk.shape.size(), 1);
  sizes.insert(sizes.end(), chunk.shape.begin(), chunk.shape.end());
  return sizes;
}

/// Writes archives one after the other into one file, and keeps their places.
class Pieces {
 public:
  explicit Pieces(const fs::path& folder) : file_(folder / data_file) {}

  void add(
      const std::string& name,
      const std::optional<Sizes>& begin,
      const PythonValue& value) {
    const std::uint64_t offset = file_.size();
    write_torch_part(file_, value);
    std::vector<PythonValue::Member> index{
        {"fqn", PythonValue::text(name)},
        {"offset", begin ? size_value(*begin) : PythonValue()},
        {"index", PythonValue()}};
    places_.emplace_back(
        PythonValue::object(classes, "MetadataIndex", std::move(index)),
        PythonValue::object(
            "torch.distributed.checkpoint.filesystem",
            "_StorageInfo",
            {{"relative_path", PythonValue::text(data_file)},
             {"offset",
              PythonValue::integer(static_cast<std::int64_t>(offset))},
             {"length",
              PythonValue::integer(
                  static_cast<std::int64_t>(file_.size() - offset))}}));
  }

  PythonValue finish() {
    file_.commit();
    return PythonValue::dict(std::move(places_));
  }

 private:
  AtomicFile file_;
  std::vector<PythonValue::Entry> places_;
};

PythonValue write_tensor(const NewTensor& tensor, Pieces& pieces) {
  std::vector<PythonValue> chunks;
  for (const auto& [begin, values] : tensor.chunks) {
    const Sizes sizes = sizes_of(tensor, values);
    LazyTensor whole = values;
    if (sizes != values.shape) {
      whole = reshaped(
          elements(values, 0, c10::multiply_integers(values.shape)),
          sizes);
    }
    pieces.add(tensor.name, begin, PythonValue::tensor(std::move(whole)));
    chunks.push_back(PythonValue::object(
        classes,
        "ChunkStorageMetadata",
        {{"offsets", size_value(begin)}, {"sizes", size_value(sizes)}}));
  }
  return PythonValue::object(
      classes,
      "TensorStorageMetadata",
      {{"properties", properties_of(tensor.chunks.front().second.type)},
       {"size", size_value(tensor.shape)},
       {"chunks", PythonValue::list(std::move(chunks))}});
}

} // namespace

void write_dcp(
    const fs::path& folder,
    const std::vector<NewTensor>& tensors,
    const std::vector<PythonValue::Member>& objects) {
  make_folder(folder);
  Pieces pieces(folder);
  std::vector<PythonValue::Member> described;
  for (const NewTensor& tensor : tensors) {
    described.emplace_back(tensor.name, write_tensor(tensor, pieces));
  }
  for (const auto& [name, value] : objects) {
    pieces.add(name, std::nullopt, value);
    described.emplace_back(
        name,
        PythonValue::object(classes, "BytesStorageMetadata", {}));
  }
  std::vector<PythonValue::Member> metadata{
      {"state_dict_metadata", PythonValue::dict_of(std::move(described))},
      {"planner_data", PythonValue()},
      {"storage_data", pieces.finish()},
      {"storage_meta", PythonValue()},
      {"version", PythonValue::text("1.0.0")}};
  write_file_atomically(
      folder / metadata_name,
      write_pickle(
          PythonValue::object(classes, "Metadata", std::move(metadata)))
          .bytes);
}

} // namespace cairn::checkpoints::dcp
