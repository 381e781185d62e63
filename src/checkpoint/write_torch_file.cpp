#include <cairn/checkpoint/torch_file.h>

#include "checkpoint/pickle_writer.h"
#include "checkpoint/zip_writer.h"

#include <span>
#include <string>

namespace cairn::checkpoints {

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
  for (std::size_t i = 0; i < pickled.storages.size(); ++i) {
    const at::Tensor& storage = pickled.storages[i];
    zip.add(
        folder + "data/" + std::to_string(i),
        {static_cast<const std::byte*>(storage.const_data_ptr()),
         storage.nbytes()});
  }
  add_text(zip, "version", "3\n");
  zip.commit();
}

} // namespace cairn::checkpoints
