#include "same_tensors.h"
#include "support/error_text.h"
#include "support/fuzz.h"
#include "support/golden_tensors.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/checkpoints/huggingface.h>
#include <cairn/checkpoints/safetensors.h>
#include <cairn/checkpoints/torch_file.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

namespace cairn::checkpoints::huggingface_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using Tensors = std::map<std::string, at::Tensor>;

fs::path golden(const std::string& name) {
  return fs::path(CAIRN_GOLDEN_DIR) / "models" / name;
}

Tensors weights_of(const fs::path& folder) {
  return testing::golden_tensors(folder / "model.safetensors");
}

json json_of(const fs::path& path) {
  return json::parse(read_file(path, 1 << 20));
}

/// The folder of a model, to be changed: with its config and these weights.
void make(
    const fs::path& folder,
    const std::string& model,
    const Tensors& weights,
    const std::string& config = "config.json") {
  fs::create_directories(folder);
  fs::copy_file(
      golden(model) / config,
      folder / "config.json",
      fs::copy_options::overwrite_existing);
  write_safetensors(folder / "model.safetensors", weights);
}

class HuggingFace : public ::testing::TestWithParam<const char*> {};

TEST_P(HuggingFace, GoesThroughOurNames) {
  const HuggingFaceModel model = read_huggingface(golden(GetParam()));
  std::int64_t count = 0;
  for (const auto& [name, tensor] : loaded(model.tensors)) {
    count += tensor.numel();
  }
  EXPECT_EQ(
      count,
      json_of(golden(GetParam()) / "expected.json")["num_parameters"]);

  const testing::TemporaryFolder folder;
  const fs::path written = folder / "written";
  write_huggingface(written, model.description, model.tensors);
  expect_same(weights_of(written), weights_of(golden(GetParam())));

  const HuggingFaceModel again = read_huggingface(written);
  EXPECT_EQ(to_json(again.description), to_json(model.description));
  expect_same(loaded(again.tensors), loaded(model.tensors));
}

TEST_P(HuggingFace, ReadsTheConfigOfAnyVersion) {
  const testing::TemporaryFolder folder;
  make(
      folder / "v5",
      GetParam(),
      weights_of(golden(GetParam())),
      "config.v5.json");
  EXPECT_EQ(
      to_json(read_huggingface(folder / "v5").description),
      to_json(read_huggingface(golden(GetParam())).description));
}

TEST_P(HuggingFace, WritesTheSameConfig) {
  const HuggingFaceModel model = read_huggingface(golden(GetParam()));
  const json wanted = json_of(golden(GetParam()) / "config.json");
  const json written =
      json::parse(huggingface_config(model.description, at::kFloat));
  for (const auto& [key, value] : written.items()) {
    if (wanted.contains(key) && key != "n_inner") { // null there: the default
      EXPECT_EQ(value, wanted[key]) << key;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Golden,
    HuggingFace,
    ::testing::Values(
        "gpt2",
        "bert",
        "llama",
        "t5_relu",
        "t5_gated_gelu",
        "qwen2",
        "qwen3",
        "gpt_neox",
        "mixtral"));

TEST(HuggingFaceNames, QueriesOfAGroupStandWithTheirKeyAndValue) {
  const Tensors theirs = weights_of(golden("llama"));
  const Tensors ours = loaded(read_huggingface(golden("llama")).tensors);
  const std::string layer = "model.layers.1.self_attn.";
  const at::Tensor query = theirs.at(layer + "q_proj.weight");
  const at::Tensor key = theirs.at(layer + "k_proj.weight");
  const at::Tensor value = theirs.at(layer + "v_proj.weight");
  const at::Tensor wanted = at::cat(
      {query.narrow(0, 0, 32),
       key.narrow(0, 0, 16),
       value.narrow(0, 0, 16),
       query.narrow(0, 32, 32),
       key.narrow(0, 16, 16),
       value.narrow(0, 16, 16)});
  EXPECT_TRUE(
      ours.at("layers.1.attention.query_key_value.weight").equal(wanted));
}

TEST(HuggingFaceNames, ConvolutionsAreTurned) {
  const Tensors theirs = weights_of(golden("gpt2"));
  const Tensors ours = loaded(read_huggingface(golden("gpt2")).tensors);
  EXPECT_TRUE(ours.at("layers.0.mlp.up.weight")
                  .equal(theirs.at("transformer.h.0.mlp.c_fc.weight").t()));
  const at::Tensor fused =
      theirs.at("transformer.h.0.attn.c_attn.weight").t(); // [3 * 64, 64]
  const at::Tensor head = at::cat(
      {fused.narrow(0, 16, 16),
       fused.narrow(0, 80, 16),
       fused.narrow(0, 144, 16)});
  EXPECT_TRUE(ours.at("layers.0.attention.query_key_value.weight")
                  .narrow(0, 48, 48)
                  .equal(head));
}

TEST(HuggingFaceFiles, InManyShards) {
  const testing::TemporaryFolder folder;
  const fs::path written = folder / "many";
  const HuggingFaceModel model = read_huggingface(golden("llama"));
  write_huggingface(
      written,
      model.description,
      model.tensors,
      {.largest_file = 200'000});
  const json index = json_of(written / "model.safetensors.index.json");
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : weights_of(golden("llama"))) {
    bytes += static_cast<std::int64_t>(tensor.nbytes());
  }
  EXPECT_EQ(index["metadata"]["total_size"], bytes);
  EXPECT_EQ(
      index["weight_map"]["model.embed_tokens.weight"],
      "model-00001-of-00004.safetensors");
  for (const auto& entry : fs::directory_iterator(written)) {
    EXPECT_LT(entry.file_size(), 203'000) << entry.path();
  }
  expect_same(loaded(read_huggingface(written).tensors), loaded(model.tensors));

  fs::remove(written / "model-00002-of-00004.safetensors");
  EXPECT_THAT(
      error_text<CheckpointError>([&] { read_huggingface(written); }),
      HasSubstr("model-00002-of-00004.safetensors: a file of the model is "
                "missing"));
}

TEST(HuggingFaceFiles, OfTorch) {
  const testing::TemporaryFolder folder;
  const auto write = [&](const fs::path& path,
                         const std::function<bool(std::size_t)>& take) {
    std::vector<PythonValue::Member> members;
    std::size_t i = 0;
    for (const auto& [name, tensor] : weights_of(golden("gpt2"))) {
      if (take(i++)) {
        members.emplace_back(name, PythonValue::tensor(tensor));
      }
    }
    write_torch_file(path, PythonValue::dict_of(members));
  };
  const Tensors wanted = loaded(read_huggingface(golden("gpt2")).tensors);
  fs::copy_file(golden("gpt2") / "config.json", folder / "config.json");

  write(folder / "a.bin", [](std::size_t i) { return i % 2 == 0; });
  write(folder / "b.bin", [](std::size_t i) { return i % 2 == 1; });
  json map = json::object();
  std::size_t i = 0;
  for (const auto& [name, tensor] : weights_of(golden("gpt2"))) {
    map[name] = i++ % 2 == 0 ? "a.bin" : "b.bin";
  }
  folder.write(
      "pytorch_model.bin.index.json",
      json{{"weight_map", map}}.dump());
  expect_same(loaded(read_huggingface(folder.path()).tensors), wanted);

  write(folder / "pytorch_model.bin", [](std::size_t) { return true; });
  fs::remove(folder / "pytorch_model.bin.index.json");
  expect_same(loaded(read_huggingface(folder.path()).tensors), wanted);
}

TEST(HuggingFaceFiles, OldNamesAndBuffers) {
  const testing::TemporaryFolder folder;
  Tensors weights;
  for (const auto& [name, tensor] : weights_of(golden("gpt2"))) {
    weights[name.substr(std::string("transformer.").size())] = tensor;
  }
  weights["h.0.attn.bias"] = at::ones({1, 1, 64, 64}, at::kByte);
  weights["h.1.attn.masked_bias"] = at::ones({});
  weights["lm_head.weight"] = weights.at("wte.weight");
  make(folder / "gpt2", "gpt2", weights);
  expect_same(
      loaded(read_huggingface(folder / "gpt2").tensors),
      loaded(read_huggingface(golden("gpt2")).tensors));

  weights.clear();
  for (const auto& [given, tensor] : weights_of(golden("bert"))) {
    std::string name = given;
    if (const auto at = name.find("LayerNorm."); at != std::string::npos) {
      const bool bias = name.ends_with("bias");
      name = name.substr(0, at) + (bias ? "LayerNorm.beta" : "LayerNorm.gamma");
    }
    weights[name] = tensor;
  }
  weights["bert.embeddings.position_ids"] = at::arange(64);
  weights["cls.predictions.decoder.weight"] =
      weights.at("bert.embeddings.word_embeddings.weight");
  make(folder / "bert", "bert", weights);
  expect_same(
      loaded(read_huggingface(folder / "bert").tensors),
      loaded(read_huggingface(golden("bert")).tensors));
}

TEST(HuggingFaceFiles, BertWithoutHeads) {
  const testing::TemporaryFolder folder;
  Tensors weights;
  for (const auto& [name, tensor] : weights_of(golden("bert"))) {
    if (name.starts_with("bert.")) {
      weights[name.substr(5)] = tensor;
    }
  }
  make(folder / "bare", "bert", weights);
  const HuggingFaceModel model = read_huggingface(folder / "bare");
  EXPECT_TRUE(model.description.pooler);
  EXPECT_FALSE(model.description.masked_head);
  write_huggingface(folder / "written", model.description, model.tensors);
  expect_same(weights_of(folder / "written"), weights);
  EXPECT_EQ(
      json_of(folder / "written/config.json")["architectures"][0],
      "BertModel");
}

TEST(HuggingFaceFiles, Roberta) {
  const testing::TemporaryFolder folder;
  model::ModelDescription d = read_huggingface(golden("bert")).description;
  d.family = model::ModelFamily::roberta;
  d.next_sentence_head = false;
  d.pooler = false;
  d.pad_token = 1;
  d.position_offset = 2;
  d.token_types = 1;
  const NamedTensors tensors = numbered(d);
  write_huggingface(folder / "r", d, tensors);
  const Tensors written = weights_of(folder / "r");
  EXPECT_TRUE(written.contains("roberta.embeddings.LayerNorm.weight"));
  EXPECT_TRUE(written.contains("lm_head.layer_norm.bias"));
  const HuggingFaceModel again = read_huggingface(folder / "r");
  EXPECT_EQ(to_json(again.description), to_json(d));
  expect_same(loaded(again.tensors), loaded(tensors));
}

TEST(HuggingFaceFiles, TypeAndTokenizer) {
  const testing::TemporaryFolder folder;
  fs::create_directories(folder / "tokens");
  folder.write("tokens/merges.txt", "a b\n");
  folder.write("tokens/other.txt", "x");
  const HuggingFaceModel model = read_huggingface(golden("gpt2"));
  write_huggingface(
      folder / "half",
      model.description,
      model.tensors,
      {.type = at::kBFloat16, .tokenizer = folder / "tokens"});
  EXPECT_EQ(json_of(folder / "half/config.json")["torch_dtype"], "bfloat16");
  EXPECT_EQ(
      weights_of(folder / "half").at("transformer.wte.weight").scalar_type(),
      at::kBFloat16);
  EXPECT_EQ(read_file(folder / "half/merges.txt", 100), "a b\n");
  EXPECT_FALSE(fs::exists(folder / "half/other.txt"));
  EXPECT_THAT(
      error_text([&] {
        write_huggingface(folder / "half", model.description, model.tensors);
      }),
      HasSubstr("the folder holds a model already"));
}

TEST(HuggingFaceFiles, RefusesWhatDoesNotFit) {
  const testing::TemporaryFolder folder;
  const auto error = [&](const std::function<void(Tensors&)>& change) {
    Tensors weights = weights_of(golden("gpt2"));
    change(weights);
    make(folder / "x", "gpt2", weights);
    return error_text<CheckpointError>([&] { read_huggingface(folder / "x"); });
  };
  EXPECT_THAT(
      error([](Tensors& w) { w.erase("transformer.h.1.ln_2.bias"); }),
      HasSubstr("model.safetensors: tensors are missing "
                "(transformer.h.1.ln_2.bias)"));
  EXPECT_THAT(
      error([](Tensors& w) {
        w["transformer.h.2.ln_1.bias"] = at::ones({64});
        w["adapter.weight"] = at::ones({1});
      }),
      HasSubstr("tensors that this model does not have (adapter.weight, "
                "transformer.h.2.ln_1.bias)"));
  EXPECT_THAT(
      error([](Tensors& w) {
        w["transformer.h.0.mlp.c_fc.weight"] = at::ones({256, 64});
      }),
      HasSubstr("\"transformer.h.0.mlp.c_fc.weight\" has another shape than "
                "config.json says ([256, 64], not [64, 256])"));
  EXPECT_THAT(
      error_text<CheckpointError>([&] { read_huggingface(folder / "none"); }),
      HasSubstr("no config.json"));
  fs::remove(folder / "x/model.safetensors");
  folder.write(
      "x/model.safetensors.index.json",
      R"({"weight_map": {"a": "../b.safetensors"}})");
  EXPECT_THAT(
      error_text<CheckpointError>([&] { read_huggingface(folder / "x"); }),
      HasSubstr("not the name of a file beside the index"));
}

TEST(HuggingFaceConfig, RefusesWhatIsNotSupported) {
  const auto error = [](const std::string& text) {
    return error_text<CheckpointError>(
        [&] { model_description_from_huggingface(text, "config.json"); });
  };
  EXPECT_THAT(error("nonsense"), HasSubstr("config.json: not a JSON object"));
  EXPECT_THAT(
      error(R"({"model_type": "mamba"})"),
      HasSubstr("a model that is not supported"));
  EXPECT_THAT(
      error(R"({"model_type": "gpt2", "activation_function": "quick_gelu"})"),
      HasSubstr("an activation that is not supported (quick_gelu)"));
  EXPECT_THAT(
      error(R"({"model_type": "gpt2", "n_layer": "two"})"),
      HasSubstr("a whole number is wanted (n_layer)"));
  EXPECT_THAT(
      error(R"({"model_type": "gpt2", "scale_attn_weights": false})"),
      HasSubstr("scale_attn_weights is false"));
  EXPECT_THAT(
      error(R"({"model_type": "gpt2", "n_embd": 9000000000000000000})"),
      HasSubstr("not a possible model"));
  EXPECT_THAT(
      error(R"({"model_type": "llama", "rope_scaling":
               {"rope_type": "proportional", "factor": 4}})"),
      HasSubstr("(rope_scaling): a scaling of rotary positions that is not "
                "supported (proportional)"));
  EXPECT_THAT(
      error(R"({"model_type": "llama", "rope_scaling":
               {"rope_type": "longrope", "factor": 4,
                "short_factor": [1], "long_factor": "2"}})"),
      HasSubstr("a list of numbers is wanted (long_factor)"));
  EXPECT_THAT(
      error(R"({"model_type": "llama", "rope_scaling":
               {"rope_type": "longrope", "factor": 4,
                "short_factor": [1], "long_factor": [2]}})"),
      HasSubstr("1 factors for the 64 frequencies of a head"));
  EXPECT_THAT(
      error(R"({"model_type": "phi3", "partial_rotary_factor": 0.75})"),
      HasSubstr("rotary positions in a part of every head"));
  EXPECT_THAT(
      error(R"({"model_type": "phi3", "resid_pdrop": 0.1})"),
      HasSubstr("dropout outside attention"));
}

TEST(HuggingFaceConfig, ScalingOfRotaryPositionsIsPossible) {
  for (const char* scaling :
       {R"("rope_type": "linear", "factor": 0)",
        R"("rope_type": "yarn", "factor": -4)",
        R"("rope_type": "yarn", "factor": 4, "beta_slow": 0)",
        R"("rope_type": "yarn", "original_max_position_embeddings": 0)",
        R"("rope_type": "longrope", "attention_factor": 0)",
        R"("rope_type": "longrope", "original_max_position_embeddings": 1)"}) {
    EXPECT_THAT(
        error_text<CheckpointError>([&] {
          model_description_from_huggingface(
              std::string(R"({"model_type": "llama", "rope_scaling": {)") +
                  scaling + "}}",
              "config.json");
        }),
        HasSubstr("scales rotary positions"))
        << scaling;
  }
}

TEST(HuggingFaceConfig, RefusesFamiliesThatDoNotFit) {
  const auto error = [](const std::string& text) {
    return error_text<CheckpointError>(
        [&] { model_description_from_huggingface(text, "config.json"); });
  };
  EXPECT_THAT(
      error(R"({"model_type": "mixtral", "num_experts_per_tok": 1})"),
      HasSubstr("at least two of several experts (1 of 8 experts)"));
  EXPECT_THAT(
      error(R"({"model_type": "mixtral", "router_jitter_noise": 0.1})"),
      HasSubstr("(router_jitter_noise)"));
  EXPECT_THAT(
      error(R"({"model_type": "gpt_neox", "rotary_pct": 0.27})"),
      HasSubstr("an even number of elements of a head (25 of 96)"));
}

TEST(HuggingFaceConfig, TextsAreNoLongerThanTheWindow) {
  const auto positions = [](const std::string& text) {
    return model_description_from_huggingface(text, "config.json").positions;
  };
  EXPECT_EQ(
      positions(R"({"model_type": "mistral", "sliding_window": 4096})"),
      4096);
  EXPECT_EQ(
      positions(R"({"model_type": "qwen2", "sliding_window": 9})"),
      32768);
  EXPECT_EQ(
      positions(R"({"model_type": "qwen2", "sliding_window": 9,
                    "use_sliding_window": true})"),
      9);
}

TEST(HuggingFaceConfig, RefusesToWriteWhatTransformersHasNot) {
  const auto error = [](const std::string& name, const auto& change) {
    model::ModelDescription d = read_huggingface(golden(name)).description;
    change(d);
    return error_text([&] { huggingface_config(d, at::kFloat); });
  };
  using D = model::ModelDescription;
  EXPECT_THAT(
      error("qwen3", [](D& d) { d.query_key_value_bias = true; }),
      HasSubstr("norms of queries and keys beside biases of them alone"));
  EXPECT_THAT(
      error("qwen2", [](D& d) { d.parallel_residual = true; }),
      HasSubstr("attention and MLP side by side"));
  EXPECT_THAT(
      error("qwen2", [](D& d) { d.rotary_size = 4; }),
      HasSubstr("rotary positions in a part of every head"));
  EXPECT_THAT(
      error("mixtral", [](D& d) { d.experts->interval = 2; }),
      HasSubstr("experts unless every layer has as many"));
}

TEST(HuggingFaceConfig, Fuzz) {
  testing::Fuzz options{
      .pieces = {"null", "-1", "1e99", "99999999999999999999", "[]", "{}"},
      .runs = 3000};
  for (const char* model : {"gpt2", "bert", "llama", "t5_relu"}) {
    options.seeds.push_back(read_file(golden(model) / "config.json", 10'000));
  }
  testing::fuzz(options, [](const std::string& text) {
    const auto d = model_description_from_huggingface(text, "config.json");
    if (d.layers < 100) {
      model::model_parameters(d);
    }
  });
}

TEST(HuggingFaceConfig, KeepsRopeScaling) {
  const model::ModelDescription d = model_description_from_huggingface(
      R"({"model_type": "llama", "num_key_value_heads": 8,
          "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3",
          "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}})",
      "config.json");
  EXPECT_EQ(d.rope_scaling, (model::RopeScaling{"llama3", 8, 1, 4, 8192}));
  EXPECT_EQ(
      to_json(model_description_from_huggingface(
          huggingface_config(d, at::kFloat),
          "again")),
      to_json(d));
}

TEST(HuggingFaceConfig, KeepsYarn) {
  const auto read = [](const std::string& more) {
    return model_description_from_huggingface(
        R"({"model_type": "llama", "max_position_embeddings": 4096,
            "rope_parameters": {"rope_type": "yarn", "factor": 4)" +
            more + "}}",
        "config.json");
  };
  const auto plain = read("");
  EXPECT_EQ(plain.rope_scaling->original_positions, 4096);
  EXPECT_EQ(
      plain.rope_scaling->yarn,
      (model::YarnScaling{.attention_factor = 1 + 0.1 * std::log(4)}));
  const auto given = read(
      R"(, "beta_fast": 16, "beta_slow": 2, "truncate": false,
         "mscale": 1, "mscale_all_dim": 1,
         "original_max_position_embeddings": 1024)");
  EXPECT_EQ(
      given.rope_scaling,
      (model::RopeScaling{
          .kind = "yarn",
          .factor = 4,
          .original_positions = 1024,
          .yarn = model::YarnScaling{16, 2, 1, false}}));
  for (const auto& d : {plain, given}) {
    EXPECT_EQ(
        to_json(model_description_from_huggingface(
            huggingface_config(d, at::kFloat),
            "again")),
        to_json(d));
    EXPECT_EQ(
        to_json(model::model_description_from_json(to_json(d), "here")),
        to_json(d));
  }
}

json longrope() {
  return json_of(fs::path(CAIRN_GOLDEN_DIR) / "generation" / "longrope.json");
}

TEST(HuggingFaceConfig, KeepsLongRope) {
  const json all = longrope();
  const auto read = [](const json& config) {
    return model_description_from_huggingface(config.dump(), "config.json");
  };
  const auto d = read(all["llama"]["config"]);
  ASSERT_TRUE(d.rope_scaling && d.rope_scaling->longrope);
  EXPECT_EQ(d.rope_scaling->original_positions, 24);
  EXPECT_EQ(d.rope_scaling->longrope->short_factors.size(), 8U);
  EXPECT_EQ(d.rope_scaling->longrope->long_factors[2], 1.4);
  EXPECT_NEAR(
      d.rope_scaling->longrope->attention_factor,
      std::sqrt(1 + std::log(4) / std::log(24)),
      1e-15);
  const auto given = read(all["llama_given_factor"]["config"]);
  EXPECT_EQ(given.rope_scaling->longrope->attention_factor, 1.3);
  for (const auto& each : {d, given}) {
    EXPECT_EQ(
        to_json(model_description_from_huggingface(
            huggingface_config(each, at::kFloat),
            "again")),
        to_json(each));
    EXPECT_EQ(
        to_json(model::model_description_from_json(to_json(each), "here")),
        to_json(each));
  }
  json inside = all["llama"]["config"];
  inside["rope_scaling"]["original_max_position_embeddings"] =
      inside["original_max_position_embeddings"];
  inside.erase("original_max_position_embeddings");
  EXPECT_EQ(read(inside).rope_scaling, d.rope_scaling);
  for (const char* name : {"su", "yarn"}) {
    json old = all["phi3"]["config"];
    old["rope_scaling"]["type"] = name;
    EXPECT_EQ(read(old).rope_scaling, d.rope_scaling);
  }
  json window = all["phi3"]["config"];
  window["sliding_window"] = 32;
  EXPECT_EQ(read(window).positions, 32);
  EXPECT_EQ(read(window).rope_scaling, d.rope_scaling);
}

/// The tiny Llama's weights with the names of Phi-3's files.
Tensors phi3_weights() {
  Tensors all = weights_of(golden("llama"));
  const auto join = [&](const std::string& first,
                        const std::vector<std::string>& others,
                        const std::string& joined) {
    Tensors result;
    for (const auto& [name, tensor] : all) {
      const auto at = name.find(first);
      const auto is_other = [&](const std::string& other) {
        return name.find(other) != name.npos;
      };
      if (at == name.npos) {
        if (std::ranges::none_of(others, is_other)) {
          result[name] = tensor;
        }
        continue;
      }
      std::vector<at::Tensor> parts{tensor};
      for (const std::string& other : others) {
        std::string own = name;
        parts.push_back(all.at(own.replace(at, first.size(), other)));
      }
      std::string own = name;
      result[own.replace(at, first.size(), joined)] = at::cat(parts);
    }
    all = result;
  };
  join(".q_proj.", {".k_proj.", ".v_proj."}, ".qkv_proj.");
  join(".gate_proj.", {".up_proj."}, ".gate_up_proj.");
  return all;
}

TEST(HuggingFaceModel, Phi3IsALlamaWhoseProductsAreJoined) {
  const testing::TemporaryFolder folder;
  folder.write("config.json", longrope()["phi3"]["config"].dump());
  Tensors weights = phi3_weights();
  EXPECT_EQ(weights.count("model.layers.1.self_attn.qkv_proj.weight"), 1U);
  EXPECT_EQ(weights.count("model.layers.1.self_attn.k_proj.weight"), 0U);
  write_safetensors(folder / "model.safetensors", weights);
  const HuggingFaceModel own = read_huggingface(folder.path());
  const HuggingFaceModel llama = read_huggingface(golden("llama"));
  ASSERT_EQ(own.tensors.size(), llama.tensors.size());
  for (std::size_t i = 0; i < own.tensors.size(); ++i) {
    EXPECT_EQ(own.tensors[i].first, llama.tensors[i].first);
    EXPECT_TRUE(
        at::equal(own.tensors[i].second.load(), llama.tensors[i].second.load()))
        << own.tensors[i].first;
  }
  auto& joined = weights["model.layers.0.mlp.gate_up_proj.weight"];
  joined = joined.narrow(0, 1, joined.size(0) - 1).clone();
  write_safetensors(folder / "model.safetensors", weights);
  EXPECT_THAT(
      error_text<CheckpointError>([&] { read_huggingface(folder.path()); }),
      HasSubstr("(343 rows, not 344)"));
}

} // namespace
} // namespace cairn::checkpoints::huggingface_test
