#include "checkpoints/tensors/named_tensors.h"
#include "support/error_text.h"
#include "support/fuzz.h"
#include "support/temporary_folder.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <cairn/checkpoints/torch_file.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <string>

// Files that the real torch.save wrote, read without Python.

namespace cairn::checkpoints::torch_file_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using Kind = PythonValue::Kind;

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(CAIRN_GOLDEN_DIR) / "checkpoints" / name;
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {
      std::istreambuf_iterator<char>(file),
      std::istreambuf_iterator<char>()};
}

double number(const json& value) {
  if (value.is_string()) {
    return value == "nan" ? std::nan("")
        : value == "inf"  ? std::numeric_limits<double>::infinity()
                          : -std::numeric_limits<double>::infinity();
  }
  return value.is_boolean() ? value.get<bool>() : value.get<double>();
}

void expect_tensor(const PythonValue& value, const json& wanted) {
  ASSERT_EQ(value.kind(), Kind::tensor);
  const at::Tensor tensor = value.tensor();
  EXPECT_EQ(
      tensor.sizes().vec(),
      wanted.at("shape").get<std::vector<std::int64_t>>());
  EXPECT_EQ(
      tensor.strides().vec(),
      wanted.at("stride").get<std::vector<std::int64_t>>());
  const at::Tensor flat = tensor.to(at::kDouble).contiguous().view({-1});
  const json& values = wanted.at("values");
  ASSERT_EQ(flat.numel(), static_cast<std::int64_t>(values.size()));
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    const double got = flat[i].item<double>();
    const double want = number(values[static_cast<std::size_t>(i)]);
    EXPECT_TRUE(got == want || (std::isnan(got) && std::isnan(want)))
        << got << " " << want;
  }
}

void expect_value(const PythonValue& value, const json& wanted);

void expect_items(const PythonValue& value, Kind kind, const json& wanted) {
  ASSERT_EQ(value.kind(), kind);
  const auto items = value.items();
  ASSERT_EQ(items.size(), wanted.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    expect_value(items[i], wanted[i]);
  }
}

void expect_dict(const PythonValue& value, const json& wanted) {
  ASSERT_EQ(value.kind(), Kind::dict);
  const auto entries = value.entries();
  ASSERT_EQ(entries.size(), wanted.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    SCOPED_TRACE(entries[i].first.describe(0));
    expect_value(entries[i].first, wanted[i][0]);
    expect_value(entries[i].second, wanted[i][1]);
  }
}

void expect_value(const PythonValue& value, const json& wanted) {
  if (wanted.is_object()) {
    if (wanted.contains("tensor")) {
      expect_tensor(value, wanted);
    } else if (wanted.contains("dict")) {
      expect_dict(value, wanted["dict"]);
    } else if (wanted.contains("list")) {
      expect_items(value, Kind::list, wanted["list"]);
    } else if (wanted.contains("tuple")) {
      expect_items(value, Kind::tuple, wanted["tuple"]);
    } else if (wanted.contains("bigint")) {
      EXPECT_EQ(value.decimal(), wanted["bigint"].get<std::string>());
    } else if (wanted.contains("dtype")) {
      EXPECT_EQ(value.type_name(), wanted["dtype"].get<std::string>());
    } else {
      std::string hex;
      for (const char c : value.bytes()) {
        constexpr const char* digits = "0123456789abcdef";
        hex += digits[static_cast<unsigned char>(c) >> 4];
        hex += digits[static_cast<unsigned char>(c) & 15];
      }
      EXPECT_EQ(hex, wanted.at("bytes_hex").get<std::string>());
    }
  } else if (wanted.is_null()) {
    EXPECT_TRUE(value.is_none());
  } else if (wanted.is_boolean()) {
    EXPECT_EQ(value.boolean(), wanted.get<bool>());
  } else if (wanted.is_number_integer()) {
    EXPECT_EQ(value.integer(), wanted.get<std::int64_t>());
  } else if (wanted.is_number()) {
    EXPECT_EQ(value.real(), wanted.get<double>());
  } else {
    EXPECT_EQ(value.text(), wanted.get<std::string>());
  }
}

TEST(TorchFile, ReadsEveryKindOfValueInEveryFormat) {
  const json wanted = json::parse(contents(golden("nested.json")));
  for (const char* name :
       {"nested.pt", "nested_legacy.pt", "nested_proto4.pt"}) {
    SCOPED_TRACE(name);
    expect_value(read_torch_file(golden(name)), wanted);
  }
}

TEST(TorchFile, ReadsAnOptimizer) {
  expect_value(
      read_torch_file(golden("torch_optimizer.pt")),
      json::parse(contents(golden("torch_optimizer.json"))));
}

TEST(TorchFile, KnowsWhatIsStoredWithoutReadingIt) {
  const PythonValue file = read_torch_file(golden("nested.pt"));
  const PythonValue value = file.at("slice_of_big");
  const StoredTensor& part = value.stored();
  EXPECT_EQ(part.sizes, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(part.type, at::kFloat);
  EXPECT_EQ(part.storage, file.at("same_storage").stored().storage);
}

TEST(TorchFile, ClassesThatItDoesNotKnowAreRecords) {
  const PythonValue file = read_torch_file(
      golden("megatron_tp1/iter_0000010/mp_rank_00/model_optim_rng.pt"));
  const PythonValue args = file.at("args");
  EXPECT_EQ(args.type_name(), "argparse.Namespace");
  EXPECT_GT(args.at("hidden_size").integer(), 0);
  EXPECT_EQ(file.at("checkpoint_version").real(), 3.0);
  // numpy's random state: an array of 624 numbers of 32 bits
  const PythonValue rng = file.at("rng_state").items().at(0);
  const at::Tensor state = rng.at("np_rng_state").items().at(1).tensor();
  EXPECT_EQ(state.scalar_type(), at::kUInt32);
  EXPECT_EQ(state.numel(), 624);
}

PythonValue a_value() {
  const at::Tensor big = at::arange(12, at::kFloat).view({3, 4});
  return PythonValue::dict_of(
      {{"none", PythonValue()},
       {"yes", PythonValue::boolean(true)},
       {"small", PythonValue::integer(7)},
       {"negative", PythonValue::integer(-70000)},
       {"large", PythonValue::integer(std::int64_t{1} << 60)},
       {"real", PythonValue::real(0.1)},
       {"text", PythonValue::text("h\u00e9llo")},
       {"bytes", PythonValue::bytes(std::string("\x00\xff\x80z", 4))},
       {"list",
        PythonValue::list({PythonValue::integer(1), PythonValue::tuple({})})},
       {"whole", PythonValue::tensor(big)},
       {"part", PythonValue::tensor(big.t().narrow(0, 1, 2))},
       {"half", PythonValue::tensor(at::ones({3}, at::kBFloat16))},
       {"eight", PythonValue::tensor(at::ones({3}).to(at::kFloat8_e4m3fn))},
       {"empty", PythonValue::tensor(at::empty({0, 2}))},
       {"args",
        PythonValue::object(
            "argparse",
            "Namespace",
            {{"lr", PythonValue::real(1e-4)}})}});
}

TEST(TorchFile, WritesWhatItReads) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "model.pt";
  const PythonValue value = a_value();
  write_torch_file(path, value);
  const PythonValue again = read_torch_file(path);
  EXPECT_EQ(again.describe(), value.describe());
  EXPECT_EQ(again.at("bytes").bytes(), value.at("bytes").bytes());
  EXPECT_EQ(again.at("large").integer(), std::int64_t{1} << 60);
  EXPECT_EQ(again.at("args").at("lr").real(), 1e-4);
  for (const char* name : {"whole", "part", "half", "empty"}) {
    EXPECT_TRUE(again.at(name).tensor().equal(value.at(name).tensor())) << name;
  }
  EXPECT_EQ(again.at("eight").tensor().scalar_type(), at::kFloat8_e4m3fn);
  EXPECT_EQ(
      again.at("whole").stored().storage,
      again.at("part").stored().storage);
}

/// Counts how often it is loaded and fails if two are alive at once.
LazyTensor counted(std::int64_t elements, int& loads, int& alive) {
  return {at::kFloat, {elements}, [=, &loads, &alive] {
            ++loads;
            EXPECT_EQ(++alive, 1);
            auto* data = new float[static_cast<std::size_t>(elements)];
            std::fill_n(data, elements, static_cast<float>(elements));
            return at::from_blob(data, {elements}, [&alive](void* memory) {
              --alive;
              delete[] static_cast<float*>(memory);
            });
          }};
}

TEST(TorchFile, WritesLazyTensorsOneAtATime) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "model.pt";
  int loads = 0;
  int alive = 0;
  const PythonValue tied = PythonValue::tensor(counted(5, loads, alive));
  const PythonValue value = PythonValue::dict_of(
      {{"a", PythonValue::tensor(counted(3, loads, alive))},
       {"b", tied},
       {"c", PythonValue::list({tied})}});
  EXPECT_EQ(value.at("b").stored().sizes, (std::vector<std::int64_t>{5}));
  EXPECT_EQ(loads, 0);
  write_torch_file(path, value);
  EXPECT_EQ(loads, 2);
  EXPECT_EQ(alive, 0);
  const PythonValue again = read_torch_file(path);
  EXPECT_TRUE(again.at("a").tensor().equal(at::full({3}, 3.0F)));
  EXPECT_TRUE(again.at("b").tensor().equal(at::full({5}, 5.0F)));
  EXPECT_EQ(
      again.at("b").stored().storage,
      again.at("c").items().at(0).stored().storage);
  EXPECT_NE(again.at("a").stored().storage, again.at("b").stored().storage);
}

TEST(TorchFile, WritesAFlatTensorPieceByPiece) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "model.pt";
  int loads = 0;
  int alive = 0;
  write_torch_file(
      path,
      PythonValue::flat_tensor(
          at::kFloat,
          {counted(3, loads, alive), counted(2, loads, alive)}));
  EXPECT_EQ(loads, 2);
  const PythonValue again = read_torch_file(path);
  const float wanted[]{3, 3, 3, 2, 2};
  EXPECT_TRUE(again.tensor().equal(at::tensor(at::ArrayRef<float>(wanted))));
  EXPECT_TRUE(again.elements(2, 2).equal(
      at::tensor(at::ArrayRef<float>(wanted + 2, 2))));
  EXPECT_THAT(
      error_text<CheckpointError>([&] { again.elements(3, 3); }),
      HasSubstr("too few elements (3 to 6 of 5)"));
}

TEST(TorchFile, RefusesALazyTensorThatIsAnother) {
  const testing::TemporaryFolder folder;
  const PythonValue value = PythonValue::tensor(
      LazyTensor{at::kFloat, {3}, [] { return at::ones({4}); }});
  EXPECT_THAT(
      error_text<CheckpointError>(
          [&] { write_torch_file(folder.path() / "x.pt", value); }),
      HasSubstr("announced as another (Float [3], loaded Float [4])"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "x.pt"));
}

TEST(TorchFile, KeepsTiesOfWhatItReadAndWritesAgain) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "again.pt";
  const PythonValue file = read_torch_file(golden("nested.pt"));
  write_torch_file(path, file);
  const PythonValue again = read_torch_file(path);
  expect_value(again, json::parse(contents(golden("nested.json"))));
  EXPECT_EQ(
      again.at("slice_of_big").stored().storage,
      again.at("same_storage").stored().storage);
  EXPECT_EQ(
      again.at("slice_of_big").stored().offset,
      file.at("slice_of_big").stored().offset);
}

TEST(NamedTensors, NamesThroughDictsOfDicts) {
  const PythonValue layer = PythonValue::dict(
      {{PythonValue::integer(0),
        PythonValue::dict_of(
            {{"weight", PythonValue::tensor(at::ones({2, 3}))},
             {"note", PythonValue::text("x")}})}});
  const NamedTensors found = named_tensors(PythonValue::dict_of(
      {{"bias", PythonValue::tensor(at::zeros({2}))}, {"layers", layer}}));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].first, "bias");
  EXPECT_EQ(found[1].first, "layers.0.weight");
  EXPECT_EQ(found[1].second.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_TRUE(found[1].second.load().equal(at::ones({2, 3})));
}

TEST(NamedTensors, EndsWhereDictsMultiply) {
  PythonValue value = PythonValue::dict_of({});
  for (int depth = 0; depth < 60; ++depth) {
    value = PythonValue::dict_of({{"a", value}, {"b", value}});
  }
  EXPECT_THAT(
      error_text<CheckpointError>([&] { named_tensors(value); }),
      HasSubstr("too large or nested too deeply"));
}

TEST(TorchFile, SaysWhatIsMissing) {
  const PythonValue file = read_torch_file(golden("nested.pt"));
  EXPECT_THAT(
      error_text<CheckpointError>([&] { file.at("flaot32"); }),
      HasSubstr("\"flaot32\" is missing (there are \"float32\""));
  EXPECT_THAT(
      error_text<CheckpointError>([&] { file.at("str").integer(); }),
      HasSubstr("an int of 64 bits is wanted, not str"));
}

TEST(TorchFile, RefusesOtherAndTornFiles) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "x.pt";
  folder.write("x.pt", "hello");
  EXPECT_THAT(
      error_text<CheckpointError>([&] { read_torch_file(path); }),
      HasSubstr("not a file of torch.save"));
  const std::string whole = contents(golden("nested.pt"));
  for (const std::size_t size : {whole.size() - 1, whole.size() / 2}) {
    folder.write("x.pt", whole.substr(0, size));
    EXPECT_THAT(
        error_text<CheckpointError>([&] { read_torch_file(path); }),
        HasSubstr("not a complete ZIP archive"));
  }
  const std::string old = contents(golden("nested_legacy.pt"));
  folder.write("x.pt", old.substr(0, old.size() - 1));
  EXPECT_THAT(
      error_text<CheckpointError>([&] { read_torch_file(path); }),
      HasSubstr("it ends early"));
}

TEST(TorchFile, RefusesTensorsThatAreLargerThanWhatIsStored) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "x.pt";
  const auto error_of = [&](const at::Tensor& tensor) {
    write_torch_file(path, PythonValue::tensor(tensor));
    return error_text<CheckpointError>([&] { read_torch_file(path); });
  };
  const at::Tensor one = at::ones({4});
  const std::int64_t large = std::int64_t{1} << 40;
  EXPECT_THAT(
      error_of(one.as_strided({large, 4}, {0, 1})),
      HasSubstr("more than once"));
  EXPECT_THAT(
      error_of(one.as_strided({3, 2}, {1, 1})),
      HasSubstr("more than once"));
  write_torch_file(path, PythonValue::tensor(one.as_strided({0, 9}, {1, 0})));
  EXPECT_EQ(read_torch_file(path).tensor().numel(), 0);
}

TEST(TorchFile, FuzzZip) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "x.pt";
  write_torch_file(path, a_value());
  testing::fuzz(
      {.seeds = {contents(path)},
       .pieces = {"PK\x03\x04", "PK\x01\x02", "../", "\xff\xff\xff\xff"},
       .runs = 1000},
      [&](const std::string& bytes) {
        folder.write("x.pt", bytes);
        read_torch_file(path).describe(10);
      });
}

/// Old files are a bare pickle: damage meets the machine at once.
TEST(TorchFile, FuzzPickle) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "x.pt";
  testing::fuzz(
      {.seeds = {contents(golden("nested_legacy.pt"))},
       .pieces =
           {"(",
            "t",
            "R",
            "b",
            "h\x01",
            "q\x01",
            "Q",
            "\x8a\xff",
            "ctorch._utils\n_rebuild_tensor_v2\n",
            "cos\nsystem\n",
            "2",
            "0"},
       .runs = 2000},
      [&](const std::string& bytes) {
        folder.write("x.pt", bytes);
        const PythonValue value = read_torch_file(path);
        value.describe(10);
        if (value.is(Kind::dict)) {
          for (const auto& [key, member] : value.entries()) {
            if (member.is(Kind::tensor)) {
              member.tensor();
            }
          }
        }
      });
}

} // namespace
} // namespace cairn::checkpoints::torch_file_test
