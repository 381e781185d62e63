#include "text_data.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <cairn/base/log.h>
#include <cairn/data/gpt_datasets.h>
#include <cairn/data/indexed_dataset.h>
#include <cairn/text/tokenizer.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::python {

namespace py = pybind11;

namespace {

using Unlocked = py::call_guard<py::gil_scoped_release>;

using TokenizerPointer = std::shared_ptr<const text::Tokenizer>;

/// pybind11 holds no pointers to constants.
struct PythonTokenizer {
  TokenizerPointer tokenizer;

  const text::Tokenizer& operator*() const { return *tokenizer; }
  const text::Tokenizer* operator->() const { return tokenizer.get(); }
};

PythonTokenizer load(
    const std::filesystem::path& path,
    const std::string& type,
    const std::filesystem::path& vocab_file,
    const std::filesystem::path& merge_file,
    bool add_special_tokens) {
  return {text::load_tokenizer(
      {.type = type,
       .vocab_file = vocab_file,
       .merge_file = merge_file,
       .model_file = path,
       .add_special_tokens = add_special_tokens})};
}

/// An index as Python counts: from the end where it is negative.
std::size_t checked(std::int64_t index, std::size_t size) {
  const auto count = static_cast<std::int64_t>(size);
  if (index < -count || index >= count) {
    throw py::index_error(
        "index " + std::to_string(index) + " of " + std::to_string(size));
  }
  return static_cast<std::size_t>(index < 0 ? index + count : index);
}

std::span<std::int64_t> int64s(const at::Tensor& tensor) {
  return {
      tensor.mutable_data_ptr<std::int64_t>(),
      static_cast<std::size_t>(tensor.numel())};
}

at::Tensor sequence_of(
    const data::IndexedDataset& dataset,
    std::int64_t index) {
  const std::size_t place = checked(index, dataset.sequence_count());
  at::Tensor tokens =
      at::empty({static_cast<std::int64_t>(dataset.length(place))}, at::kLong);
  dataset.read(place, 0, int64s(tokens));
  return tokens;
}

/// The samples of one split, which share the files with the others.
struct GptSplit {
  std::shared_ptr<const data::GptDatasets> all;
  data::Split split;
  std::int64_t sequence_length;

  const data::BlendedGptDataset& samples() const { return *(*all)[split]; }

  py::dict at(std::int64_t index) const {
    const std::size_t place = checked(index, samples().size());
    const at::Tensor tokens = at::empty({sequence_length}, at::kLong);
    const at::Tensor labels = at::empty({sequence_length}, at::kLong);
    const at::Tensor mask = at::empty({sequence_length}, at::kFloat);
    const at::Tensor positions = at::empty({sequence_length}, at::kLong);
    const data::GptRow row{
        .tokens = int64s(tokens),
        .labels = int64s(labels),
        .loss_mask =
            {mask.mutable_data_ptr<float>(),
             static_cast<std::size_t>(sequence_length)},
        .position_ids = int64s(positions)};
    {
      const py::gil_scoped_release unlocked;
      samples().read(place, row);
    }
    py::dict result;
    result["tokens"] = tokens;
    result["labels"] = labels;
    result["loss_mask"] = mask;
    result["position_ids"] = positions;
    return result;
  }
};

std::vector<std::optional<GptSplit>> build(
    const std::vector<std::string>& data_path,
    std::int64_t sequence_length,
    const std::string& split,
    const std::array<std::optional<std::int64_t>, 3>& samples,
    std::uint32_t seed,
    std::int64_t eod,
    const std::optional<std::filesystem::path>& cache,
    bool reset_position_ids,
    bool eod_mask_loss) {
  if (sequence_length < 1) {
    throw UsageError(
        {.what = "sequence_length must be at least 1", .where = "GPTDataset"});
  }
  data::GptDataOptions options;
  options.data.blend = data::Blend::parse(data_path);
  options.data.split = split;
  options.data.samples = samples;
  options.data.cache_path = cache;
  options.sequence_length = sequence_length;
  options.seed = seed;
  options.sample = {
      .eod = eod,
      .reset_position_ids = reset_position_ids,
      .eod_mask_loss = eod_mask_loss};
  const auto all = std::make_shared<const data::GptDatasets>(
      data::build_gpt_datasets(options, Logger({.least = LogLevel::warning})));
  std::vector<std::optional<GptSplit>> result;
  for (const data::Split each : data::all_splits) {
    result.push_back(
        (*all)[each] ? std::optional<GptSplit>({all, each, sequence_length})
                     : std::nullopt);
  }
  return result;
}

} // namespace

void add_text_data(py::module_& module) {
  py::class_<PythonTokenizer>(module, "Tokenizer")
      .def(
          py::init(&load),
          py::arg("path"),
          py::arg("type"),
          py::arg("vocab_file"),
          py::arg("merge_file"),
          py::arg("add_special_tokens"),
          Unlocked())
      .def(
          "encode",
          [](const PythonTokenizer& self, std::string_view text) {
            return self->encode(text);
          },
          Unlocked())
      .def(
          "decode",
          [](const PythonTokenizer& self,
             const std::vector<text::TokenId>& ids) {
            return py::bytes(self->decode(ids));
          })
      .def(
          "token",
          [](const PythonTokenizer& self, text::TokenId id) {
            return py::bytes(self->token(id));
          })
      .def(
          "find",
          [](const PythonTokenizer& self, const std::string& token) {
            return self->find(token);
          })
      .def_property_readonly(
          "vocab_size",
          [](const PythonTokenizer& self) { return self->vocab_size(); })
      .def_property_readonly("special", [](const PythonTokenizer& self) {
        const text::SpecialIds& ids = self->special();
        py::dict result;
        const auto add = [&](const char* name, const auto& id) {
          if (id) {
            result[name] = *id;
          }
        };
        add("unknown", ids.unknown);
        add("pad", ids.pad);
        add("begin", ids.begin);
        add("end", ids.end);
        add("end_of_document", ids.end_of_document);
        add("classify", ids.classify);
        add("separator", ids.separator);
        add("mask", ids.mask);
        return result;
      });
  py::class_<data::IndexedDataset>(module, "IndexedDataset")
      .def(py::init<std::filesystem::path>())
      .def("__len__", &data::IndexedDataset::sequence_count)
      .def("__getitem__", &sequence_of)
      .def_property_readonly("tokens", &data::IndexedDataset::token_count)
      .def_property_readonly(
          "documents",
          &data::IndexedDataset::document_count);
  py::class_<GptSplit>(module, "GptSplit")
      .def(
          "__len__",
          [](const GptSplit& self) { return self.samples().size(); })
      .def("__getitem__", &GptSplit::at);
  module.def(
      "build_gpt_datasets",
      &build,
      py::arg("data_path"),
      py::arg("sequence_length"),
      py::arg("split"),
      py::arg("samples"),
      py::arg("seed"),
      py::arg("eod"),
      py::arg("cache"),
      py::arg("reset_position_ids"),
      py::arg("eod_mask_loss"),
      Unlocked());
}

} // namespace cairn::python
