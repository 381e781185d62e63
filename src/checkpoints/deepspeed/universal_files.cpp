#include "checkpoints/deepspeed/universal_files.h"

#include "checkpoints/tensors/in_file.h"
#include "checkpoints/tensors/named_tensors.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/torch_file.h>

#include <system_error>

namespace cairn::checkpoints::deepspeed {

namespace fs = std::filesystem;

bool is_universal(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder / "zero", error), end;
       !error && entry != end;
       entry.increment(error)) {
    if (fs::exists(entry->path() / "fp32.pt", error)) {
      return true;
    }
  }
  return false;
}

std::map<std::string, fs::path> universal_parameters(const fs::path& folder) {
  std::map<std::string, fs::path> parameters;
  std::error_code error;
  for (fs::directory_iterator entry(folder / "zero", error), end;
       !error && entry != end;
       entry.increment(error)) {
    if (entry->is_directory(error)) {
      parameters.emplace(entry->path().filename().string(), entry->path());
    }
  }
  if (error || parameters.empty()) {
    throw CheckpointError(
        {.what = "no parameters of a universal checkpoint",
         .where = (folder / "zero").string(),
         .values = error ? error.message() : ""});
  }
  return parameters;
}

std::map<std::string, fs::path> universal_states(const fs::path& parameter) {
  std::map<std::string, fs::path> states;
  std::error_code error;
  for (fs::directory_iterator entry(parameter, error), end;
       !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".pt") {
      states.emplace(entry->path().stem().string(), entry->path());
    }
  }
  if (error || states.empty()) {
    throw CheckpointError(
        {.what = "no states of a parameter",
         .where = parameter.string(),
         .values = error ? error.message() : ""});
  }
  return states;
}

fs::path universal_model_file(const fs::path& folder) {
  // Stages 1 and 2 write the first file, stage 3 the second.
  const fs::path file = folder / "mp_rank_00_model_states.pt";
  const fs::path cut = folder / "zero_pp_rank_0_mp_rank_00_model_states.pt";
  if (fs::exists(file)) {
    return file;
  }
  if (fs::exists(cut)) {
    return cut;
  }
  throw CheckpointError(
      {.what = "the file of the first model-parallel rank is missing",
       .where = file.string()});
}

LazyTensor universal_tensor(const fs::path& file) {
  return in_file(file, [&] {
    const PythonValue content = read_torch_file(file);
    return lazy_tensor(
        content.is(PythonValue::Kind::dict) ? content.at("param") : content);
  });
}

} // namespace cairn::checkpoints::deepspeed
