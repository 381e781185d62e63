#include <cairn/checkpoint/torch_file.h>

#include "checkpoint/pickle_writer.h"
#include "checkpoint/python_node.h"
#include "checkpoint/tensor_bytes.h"
#include "checkpoint/zip_writer.h"

#include <ATen/Functions.h>

#include <cstdint>
#include <span>
#include <string>

namespace cairn::checkpoints {

namespace {

void add_storage(
    ZipWriter& zip,
    const std::string& name,
    const PickledStorage& storage) {
  const PythonValue::Node& node = *storage.tensor;
  if (node.bytes) {
    zip.add(name, node.bytes->storage);
    return;
  }
  at::Tensor elements;
  if (const at::Tensor& own = node.made->tensor; own.defined()) {
    elements = at::empty({0}, own.options().dtype(at::kByte))
                   .set_(
                       own.storage(),
                       0,
                       {static_cast<std::int64_t>(storage.bytes)},
                       {1})
                   .cpu();
  } else {
    elements = load(*node.made).contiguous();
  }
  zip.add(
      name,
      {static_cast<const std::byte*>(elements.const_data_ptr()),
       elements.nbytes()});
}

} // namespace

void write_torch_file(
    const std::filesystem::path& path,
    const PythonValue& value) {
  const Pickled pickled = write_pickle(value);
  // The folder inside has the file's name, as torch.save does it.
  const std::string folder = path.stem().string() + "/";
  const auto add_text =
      [&](ZipWriter& zip, const char* name, const std::string& text) {
        zip.add(folder + name, std::as_bytes(std::span(text)));
      };
  ZipWriter zip(path);
  add_text(zip, "data.pkl", pickled.bytes);
  add_text(zip, "byteorder", "little");
  for (const PickledStorage& storage : pickled.storages) {
    add_storage(
        zip,
        folder + "data/" + std::to_string(storage.number),
        storage);
  }
  add_text(zip, "version", "3\n");
  zip.commit();
}

} // namespace cairn::checkpoints
