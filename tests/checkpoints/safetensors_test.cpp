#include "support/fuzz.h"
#include "support/temporary_folder.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <cairn/checkpoints/safetensors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

namespace cairn::checkpoints::safetensors_test {
namespace {

using ::testing::HasSubstr;

const std::map<std::string, at::Tensor>& some() {
  static const std::map<std::string, at::Tensor> tensors{
      {"a", at::arange(6, at::kFloat).view({2, 3})},
      {"b", at::ones({4}, at::kBFloat16)},
      {"empty", at::empty({0, 3})},
      {"scalar", at::full({}, 7, at::kLong)},
      {"turned", at::arange(6, at::kInt).view({2, 3}).t()}};
  return tensors;
}

TEST(Safetensors, ReadsWhatItWrote) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "x.safetensors";
  write_safetensors(path, some(), {{"format", "pt"}});
  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  ASSERT_EQ(file.entries().size(), some().size());
  for (const auto& [name, tensor] : some()) {
    EXPECT_TRUE(file.tensor(name).equal(tensor)) << name;
    EXPECT_EQ(file.at(name).type, tensor.scalar_type());
  }
  EXPECT_THROW(file.tensor("c"), CheckpointError);
}

TEST(Safetensors, LendsTheFilesOwnMemory) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "x.safetensors";
  write_safetensors(path, some());
  std::map<std::string, at::Tensor> lent;
  {
    const auto file = std::make_shared<const SafetensorsFile>(path);
    for (const auto& [name, tensor] : some()) {
      lent[name] = lazy_tensor(file, name).load();
    }
    EXPECT_EQ(
        lent.at("scalar").const_data_ptr(),
        static_cast<const void*>(file->at("scalar").bytes.data()));
    EXPECT_THROW(lazy_tensor(file, "c"), CheckpointError);
  }
  for (const auto& [name, tensor] : some()) { // the tensors keep the file open
    EXPECT_TRUE(lent.at(name).equal(tensor)) << name;
    EXPECT_EQ(lent.at(name).scalar_type(), tensor.scalar_type());
  }
}

TEST(Safetensors, ReadsHuggingFacesOwn) {
  const SafetensorsFile file(
      std::filesystem::path(CAIRN_GOLDEN_DIR) /
      "checkpoints/gpt2_logits.safetensors");
  EXPECT_EQ(file.at("logits").type, at::kFloat);
  EXPECT_EQ(file.at("input_ids").type, at::kLong);
  EXPECT_EQ(file.tensor("logits").size(0), file.tensor("input_ids").size(0));
}

std::string with_header(const std::string& header, std::size_t data) {
  const std::uint64_t size = header.size();
  std::string bytes(reinterpret_cast<const char*>(&size), 8);
  return bytes + header + std::string(data, 'x');
}

TEST(Safetensors, RefusesWhatCannotBe) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "x.safetensors";
  const auto error_of = [&](const std::string& bytes) -> std::string {
    folder.write("x.safetensors", bytes);
    try {
      const SafetensorsFile file(path);
    } catch (const CheckpointError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error_of("abc"), HasSubstr("too short"));
  EXPECT_THAT(
      error_of(with_header("{", 0).substr(0, 8) + std::string(7, '\xff')),
      HasSubstr("safetensors"));
  EXPECT_THAT(
      error_of(with_header(
          R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
          7)),
      HasSubstr("a has bytes 0 to 8 of 7"));
  EXPECT_THAT(
      error_of(with_header(
          R"({"a":{"dtype":"F32","shape":[9223372036854775807,4],)"
          R"("data_offsets":[0,8]}})",
          8)),
      HasSubstr("a has bytes"));
  EXPECT_THAT(
      error_of(with_header(
          R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})",
          4)),
      HasSubstr("not a whole number that can stand there (1.5)"));
  EXPECT_THAT(
      error_of(with_header(
          R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4.5]}})",
          4)),
      HasSubstr("not a whole number that can stand there (4.5)"));
  EXPECT_THAT(
      error_of(with_header(
          R"({"a":{"dtype":"F4","shape":[2],"data_offsets":[0,8]}})",
          8)),
      HasSubstr("not supported (F4)"));
  EXPECT_THAT(
      error_of(with_header(
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
          R"("a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
          4)),
      HasSubstr("a name is there twice"));
  EXPECT_THAT(
      error_of(with_header(
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
          R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
          3)),
      HasSubstr("overlap"));
  EXPECT_THAT(
      error_of(with_header(
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
          3)),
      HasSubstr("3 bytes of elements, not 2"));
}

TEST(Safetensors, Fuzz) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "x.safetensors";
  write_safetensors(path, some());
  std::ifstream stream(path, std::ios::binary);
  const std::string whole{
      std::istreambuf_iterator<char>(stream),
      std::istreambuf_iterator<char>()};
  testing::fuzz(
      {.seeds = {whole},
       .pieces =
           {"\"shape\":[", "-1", "18446744073709551615", "[", "]", "{", "}"},
       .runs = 2000},
      [&](const std::string& bytes) {
        folder.write("x.safetensors", bytes);
        const SafetensorsFile file(path);
        for (const auto& [name, entry] : file.entries()) {
          file.tensor(name);
        }
      });
}

} // namespace
} // namespace cairn::checkpoints::safetensors_test
