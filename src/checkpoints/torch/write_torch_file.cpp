#include <cairn/checkpoints/torch_file.h>

#include "checkpoints/pickle/pickle_writer.h"
#include "checkpoints/pickle/python_node.h"
#include "checkpoints/tensors/tensor_bytes.h"
#include "checkpoints/torch/torch_part.h"
#include "checkpoints/torch/zip_writer.h"

#include <ATen/Functions.h>
#include <cairn/base/file.h>

#include <cstdint>
#include <span>
#include <string>

namespace cairn::checkpoints {

namespace {

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {
      static_cast<const std::byte*>(tensor.const_data_ptr()),
      tensor.nbytes()};
}

void add_storage(
    ZipWriter& zip,
    const std::string& name,
    const PickledStorage& storage) {
  const PythonValue::Node& node = *storage.tensor;
  zip.begin(name, storage.bytes);
  if (node.bytes) {
    zip.write(node.bytes->storage);
  } else if (const at::Tensor& own = node.made->tensor; own.defined()) {
    const at::Tensor bytes = at::empty({0}, own.options().dtype(at::kByte))
                                 .set_(
                                     own.storage(),
                                     0,
                                     {static_cast<std::int64_t>(storage.bytes)},
                                     {1});
    zip.write(bytes_of(bytes.cpu()));
  } else {
    for (const LazyTensor& piece : node.made->pieces) {
      piece.stream([&](std::span<const std::byte> part) { zip.write(part); });
    }
  }
}

/// Writes an archive whose members are in a folder of that name.
void write_archive(
    AtomicFile& file,
    const std::string& folder,
    const PythonValue& value) {
  const Pickled pickled = write_pickle(value);
  ZipWriter zip(file);
  const auto add_text = [&](const char* name, const std::string& text) {
    zip.add(folder + "/" + name, std::as_bytes(std::span(text)));
  };
  add_text("data.pkl", pickled.bytes);
  add_text("byteorder", "little");
  for (const PickledStorage& storage : pickled.storages) {
    add_storage(
        zip,
        folder + "/data/" + std::to_string(storage.number),
        storage);
  }
  add_text("version", "3\n");
  zip.finish();
}

} // namespace

void write_torch_file(
    const std::filesystem::path& path,
    const PythonValue& value) {
  AtomicFile file(path);
  // The folder in the archive has the file's name, as torch.save does it.
  write_archive(file, path.stem().string(), value);
  file.commit();
}

void write_torch_part(AtomicFile& file, const PythonValue& value) {
  write_archive(file, "archive", value);
}

} // namespace cairn::checkpoints
