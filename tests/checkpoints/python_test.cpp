#include "support/python.h"
#include "checkpoints/deepspeed_states.h"
#include "checkpoints/internal/slice_file.h"
#include "support/temporary_folder.h"

#include <ATen/Functions.h>
#include <cairn/checkpoints/convert.h>
#include <cairn/checkpoints/deepspeed.h>
#include <cairn/checkpoints/safetensors.h>
#include <cairn/checkpoints/torch_file.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <bit>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

// Files that Cairn wrote, opened by the programs that they are meant for.

namespace cairn::checkpoints::python_test {
namespace {

using nlohmann::json;
using Kind = PythonValue::Kind;

template <typename Bytes>
std::string hex_of(const Bytes& bytes) {
  std::string result;
  for (const auto byte : bytes) {
    result += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return result;
}

std::string dtype_name(at::ScalarType type) {
  static const std::map<at::ScalarType, std::string> names{
      {at::kFloat, "float32"},
      {at::kDouble, "float64"},
      {at::kHalf, "float16"},
      {at::kBFloat16, "bfloat16"},
      {at::kLong, "int64"},
      {at::kInt, "int32"},
      {at::kByte, "uint8"},
      {at::kBool, "bool"},
      {at::kFloat8_e4m3fn, "float8_e4m3fn"}};
  return names.at(type);
}

json dump(const at::Tensor& value) {
  const at::Tensor flat = value.contiguous();
  const std::string_view bytes(
      static_cast<const char*>(flat.const_data_ptr()),
      flat.nbytes());
  return {
      {"tensor",
       {{"dtype", dtype_name(value.scalar_type())},
        {"shape", value.sizes().vec()},
        {"hex", hex_of(bytes)}}}};
}

/// Gives every kind of value a form of its own, so that nothing passes for
/// another.
json dump(const PythonValue& value) {
  switch (value.kind()) {
    case Kind::none:
      return nullptr;
    case Kind::boolean:
      return value.boolean();
    case Kind::integer:
      return value.integer();
    case Kind::real: {
      const auto bits = std::bit_cast<std::array<char, 8>>(value.real());
      return {{"real", hex_of(bits)}};
    }
    case Kind::text:
      return value.text();
    case Kind::bytes:
      return {{"bytes", hex_of(value.bytes())}};
    case Kind::tensor: {
      json result = dump(value.tensor());
      result["tensor"]["shares"] = value.stored().storage;
      return result;
    }
    case Kind::dict: {
      json members = json::array();
      for (const auto& [key, member] : value.entries()) {
        members.push_back(json::array({dump(key), dump(member)}));
      }
      return {{"dict", members}};
    }
    default: {
      json items = json::array();
      for (const PythonValue& item : value.items()) {
        items.push_back(dump(item));
      }
      return {{value.is(Kind::list) ? "list" : "tuple", items}};
    }
  }
}

TEST(RealPython, LoadsTorchFiles) {
  const testing::TemporaryFolder folder;
  const at::Tensor big = at::arange(12, at::kFloat).view({3, 4});
  const PythonValue lazy = PythonValue::tensor(
      LazyTensor{at::kBFloat16, {2, 3}, [] {
                   return at::arange(6, at::kBFloat16).view({3, 2}).t();
                 }});
  const PythonValue value = PythonValue::dict_of(
      {{"none", PythonValue()},
       {"flags",
        PythonValue::list(
            {PythonValue::boolean(true), PythonValue::boolean(false)})},
       {"numbers",
        PythonValue::tuple(
            {PythonValue::integer(7),
             PythonValue::integer(-70000),
             PythonValue::integer(std::int64_t{1} << 60),
             PythonValue::integer(std::numeric_limits<std::int64_t>::min()),
             PythonValue::real(0.1),
             PythonValue::real(-0.0)})},
       {"text", PythonValue::text("h\u00e9llo \U0001F600")},
       {"bytes", PythonValue::bytes(std::string("\x00\xff\x80z", 4))},
       {"whole", PythonValue::tensor(big)},
       {"part", PythonValue::tensor(big.t().narrow(0, 1, 2))},
       {"eight", PythonValue::tensor(at::ones({3}).to(at::kFloat8_e4m3fn))},
       {"mask", PythonValue::tensor(at::ones({2, 2}, at::kBool))},
       {"scalar", PythonValue::tensor(at::full({}, 3, at::kLong))},
       {"empty", PythonValue::tensor(at::empty({0, 2}))},
       {"lazy", lazy},
       {"tied", lazy},
       {"flat",
        PythonValue::flat_tensor(
            at::kInt,
            {LazyTensor{at::kInt, {2}, [] { return at::ones({2}, at::kInt); }},
             LazyTensor{at::kInt, {1, 3}, [] {
                          return at::arange(3, at::kInt).view({1, 3});
                        }}})}});
  const auto path = folder.path() / "value.pt";
  folder.write("value.json", dump(value).dump());
  write_torch_file(path, value);
  // Reads the file that was just written once more.
  folder.write("again.json", dump(value).dump());
  write_torch_file(folder.path() / "again.pt", read_torch_file(path));
  testing::run_python_tool(
      "check_checkpoints.py",
      {"torch", folder.path().string()});
}

TEST(RealPython, LoadsSafetensors) {
  const testing::TemporaryFolder folder;
  const std::map<std::string, at::Tensor> tensors{
      {"a", at::arange(6, at::kFloat).view({2, 3}).t()},
      {"b.half", at::ones({4}, at::kBFloat16)},
      {"empty", at::empty({0, 3})},
      {"flags", at::ones({3}, at::kBool)},
      {"scalar", at::full({}, 7, at::kLong)}};
  json members = json::array();
  for (const auto& [name, tensor] : tensors) {
    members.push_back(json::array({name, dump(tensor)}));
  }
  folder.write("x.json", json{{"dict", members}}.dump());
  write_safetensors(folder.path() / "x.safetensors", tensors);
  testing::run_python_tool(
      "check_checkpoints.py",
      {"safetensors", folder.path().string()});
}

/// A program other than Cairn reads the format as docs/checkpoint-format.md
/// describes it.
TEST(RealPython, ReadsNativeCheckpoints) {
  const testing::TemporaryFolder folder;
  const at::Tensor flat = at::arange(35, at::kFloat).view({5, 7});
  const at::Tensor wide = at::arange(24, at::kHalf).view({4, 6});
  const at::Tensor bytes = at::arange(9, at::kByte);
  const auto columns = [&](std::int64_t begin, std::int64_t size) {
    return wide.narrow(1, begin, size).contiguous().view({-1});
  };
  const Box left{{0, 0}, {4, 2}};
  const Box right{{0, 2}, {4, 4}};
  const std::vector<std::vector<TensorSlice>> writers{
      {{.name = "weight/flat",
        .shape = {5, 7},
        .values = flat.view({-1}).slice(0, 0, 20)},
       {.name = "weight/wide",
        .shape = {4, 6},
        .box = left,
        .values = columns(0, 2)},
       {.name = "rng/cpu/0", .shape = {9}, .values = bytes}},
      {{.name = "weight/flat",
        .shape = {5, 7},
        .begin = 20,
        .values = flat.view({-1}).slice(0, 20)},
       {.name = "weight/wide",
        .shape = {4, 6},
        .box = right,
        .values = columns(2, 4).slice(0, 0, 7)},
       {.name = "weight/wide",
        .shape = {4, 6},
        .box = right,
        .begin = 7,
        .values = columns(2, 4).slice(0, 7)}}};
  std::filesystem::create_directory(folder / "a");
  Manifest manifest{.tag = "a"};
  for (std::size_t i = 0; i < writers.size(); ++i) {
    SlicePlan plan;
    for (const TensorSlice& slice : writers[i]) {
      plan.put(slice);
    }
    SliceFile file(
        folder / fmt::format("a/rank-{:05}.safetensors", i),
        plan.slices());
    for (const TensorSlice& slice : writers[i]) {
      file.put(slice);
    }
    add_file(manifest, file.finish());
  }
  std::ofstream(folder / "a/manifest.json") << to_text(manifest);
  write_safetensors(
      folder / "a.safetensors",
      {{"weight/flat", flat}, {"weight/wide", wide}, {"rng/cpu/0", bytes}});
  testing::run_python_tool(
      "check_checkpoints.py",
      {"native", folder.path().string()});
}

std::map<std::string, at::Tensor> expected_of(
    const DeepSpeedState& state,
    const DeepSpeedLayout& layout) {
  std::map<std::string, at::Tensor> result;
  const auto add = [&](const NamedTensors& tensors, bool rounded) {
    for (const auto& [name, tensor] : tensors) {
      const at::Tensor value = tensor.load();
      result[name] =
          (rounded && value.is_floating_point() ? value.to(layout.type) : value)
              .to(at::kFloat);
    }
  };
  add(state.parameters, layout.stage == 0);
  add(layout.stage == 0 ? NamedTensors() : state.masters, false);
  add(state.buffers, false);
  if (layout.stage != 1) { // which DeepSpeed's tool forgets
    add(state.frozen, true);
  }
  for (const auto& [name, holder] : state.ties) {
    result[name] = result.at(holder);
  }
  return result;
}

void write_case(
    const std::filesystem::path& folder,
    const DeepSpeedState& state,
    const DeepSpeedLayout& layout) {
  write_deepspeed(folder, state, layout);
  write_safetensors(
      folder / "expected.safetensors",
      expected_of(state, layout));
}

TEST(RealPython, DeepSpeedGivesTheWeightsBack) {
  const testing::TemporaryFolder folder;
  const DeepSpeedState plain = golden_state("deepspeed_z2_bf16_w2");
  const DeepSpeedState groups = golden_state("deepspeed_z3_bf16_w2_groups");
  const DeepSpeedState odd = odd_state();
  for (const int stage : {0, 1, 2, 3}) {
    for (const int ranks : {1, 2, 3, 8}) {
      const auto name = fmt::format("z{}_w{}", stage, ranks);
      const DeepSpeedLayout bf16{.stage = stage, .ranks = ranks};
      write_case(folder.path() / (name + "_plain"), plain, bf16);
      write_case(folder.path() / (name + "_groups"), groups, bf16);
      write_case(
          folder.path() / (name + "_odd_fp16"),
          odd,
          {.stage = stage, .ranks = ranks, .type = at::kHalf});
      write_case(
          folder.path() / (name + "_odd_fp32"),
          odd,
          {.stage = stage,
           .ranks = ranks,
           .type = at::kFloat,
           .sub_group_size = 8});
    }
  }
  testing::run_python_tool(
      "check_checkpoints.py",
      {"deepspeed", folder.path().string()});
}

TEST(RealPython, DeepSpeedTrainsOn) {
  const testing::TemporaryFolder folder;
  for (const int stage : {0, 1, 2, 3}) {
    const std::string type = stage == 0 ? "fp32" : "bf16";
    const DeepSpeedState state = golden_state(
        fmt::format("deepspeed_z{}_{}_w{}", stage, type, stage == 0 ? 1 : 2));
    const DeepSpeedLayout layout{
        .stage = stage,
        .ranks = 1,
        .type = stage == 0 ? at::kFloat : at::kBFloat16};
    const auto place = folder.path() / fmt::format("z{}", stage);
    write_deepspeed(place, state, layout);
    auto expected = expected_of(state, layout);
    for (const auto& [name, tensor] : state.optimizer_states) {
      expected[name] = tensor.load();
    }
    write_safetensors(place / "expected.safetensors", expected);
    std::ofstream(place / "config.json") << json{
        {"train_batch_size", 8},
        {"zero_allow_untested_optimizer", true},
        {"zero_optimization", {{"stage", stage}}},
        {"bf16", {{"enabled", stage > 0}}}};
  }
  testing::run_python_tool(
      "check_checkpoints.py",
      {"deepspeed-load", folder.path().string()});
}

/// One universal checkpoint is loaded at every stage, in 16 bits and in fp32.
TEST(RealPython, DeepSpeedLoadsUniversalCheckpoints) {
  const testing::TemporaryFolder folder;
  const DeepSpeedState state = golden_state("deepspeed_z2_bf16_w2");
  for (const int stage : {1, 2, 3}) {
    const auto place = folder.path() / fmt::format("z{}", stage);
    convert(
        {.input = golden("deepspeed_z2_bf16_w2"),
         .output = place,
         .to = CheckpointFormat::deepspeed,
         .universal = true});
    auto expected = expected_of(state, {.stage = 2, .ranks = 1});
    for (const auto& [name, tensor] : state.optimizer_states) {
      expected[name] = tensor.load();
    }
    write_safetensors(place / "expected.safetensors", expected);
    std::ofstream(place / "config.json") << json{
        {"train_batch_size", 8},
        {"zero_allow_untested_optimizer", true},
        {"zero_optimization", {{"stage", stage}}},
        {"checkpoint", {{"load_universal", true}}},
        {"bf16", {{"enabled", stage > 1}}}};
  }
  testing::run_python_tool(
      "check_checkpoints.py",
      {"deepspeed-load", folder.path().string()});
}

/// Megatron-LM goes on with what we make of its runs, in other formats and for
/// other ranks, and has the losses that it would have had.
TEST(RealPython, MegatronLmGoesOn) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path core =
      std::filesystem::path(CAIRN_GOLDEN_DIR) / "checkpoints_core";
  std::ifstream file(core / "continued/losses.json");
  const json losses = json::parse(file);
  struct Form {
    std::string from;
    ConvertOptions options;
    int ranks;
    std::vector<std::string> args;
    double tolerance = 2e-5;
  };
  const ConvertOptions torch{
      .output = {},
      .megatron_names = MegatronNames::core_local};
  const ConvertOptions torch_dist{
      .output = {},
      .megatron_format = MegatronFormat::torch_dist};
  ConvertOptions distributed = torch_dist;
  distributed.megatron_distributed_optimizer = true;
  distributed.type = at::kBFloat16;
  ConvertOptions two = torch;
  two.split.expert = 2;
  ConvertOptions two_dist = torch_dist;
  two_dist.split.expert = 2;
  ConvertOptions two_distributed = two;
  two_distributed.megatron_distributed_optimizer = true;
  two_distributed.type = at::kBFloat16;
  const std::vector<Form> forms{
      // Padding for two ranks.
      {"llama/dist_tp2_pp2", torch, 1, {"--make-vocab-size-divisible-by=16"}},
      {"llama/torch_tp2",
       torch_dist,
       2,
       {"--ckpt-format=torch_dist", "--tensor-model-parallel-size=2"}},
      {"moe/dist_ep2", torch, 1, {}},
      {"moe/torch_ep2", torch_dist, 1, {"--ckpt-format=torch_dist"}},
      {"moe_bf16_distopt/dist_ep2",
       distributed,
       2,
       {"--ckpt-format=torch_dist", "--bf16", "--use-distributed-optimizer"},
       5e-3},
      {"moe/dist_ep2", two, 2, {"--expert-model-parallel-size=2"}},
      {"moe/torch_ep2",
       two_dist,
       2,
       {"--ckpt-format=torch_dist", "--expert-model-parallel-size=2"}},
      {"moe_bf16_distopt/dist_ep2",
       two_distributed,
       2,
       {"--expert-model-parallel-size=2",
        "--bf16",
        "--use-distributed-optimizer"},
       5e-3},
      {"squared_relu/torch", torch, 1, {}},
      {"squared_relu/torch", torch_dist, 1, {"--ckpt-format=torch_dist"}}};
  int number = 0;
  for (const Form& form : forms) {
    ConvertOptions options = form.options;
    options.input = core / form.from;
    options.output = folder.path() / std::to_string(number++);
    options.to = CheckpointFormat::megatron;
    options.vocabulary_multiple = 8;
    options.megatron.keep_padding = true;
    convert(options);
    std::vector<std::string> args{
        "--num-layers=2",
        "--hidden-size=16",
        "--num-attention-heads=4",
        "--ffn-hidden-size=20",
        "--seq-length=14",
        "--max-position-embeddings=14",
        "--vocab-size=49",
        "--make-vocab-size-divisible-by=8",
        "--tokenizer-type=NullTokenizer",
        "--normalization=RMSNorm",
        "--disable-bias-linear",
        "--position-embedding-type=rope",
        "--untie-embeddings-and-output-weights",
        "--group-query-attention",
        "--num-query-groups=2",
        "--hidden-dropout=0",
        "--attention-dropout=0",
        "--lr=0.02",
        "--min-lr=0.001",
        "--lr-warmup-iters=2",
        "--lr-decay-iters=20",
        "--lr-decay-style=cosine",
        "--weight-decay=0.1",
        "--adam-beta2=0.95",
        "--clip-grad=1.0",
        "--micro-batch-size=2",
        "--global-batch-size=4",
        "--train-iters=15",
        "--eval-iters=0",
        "--eval-interval=1000",
        "--log-interval=1",
        "--split=100,0,0",
        "--seed=1234",
        "--transformer-impl=local",
        "--no-masked-softmax-fusion",
        "--no-bias-swiglu-fusion",
        "--no-rope-fusion",
        "--no-persist-layer-norm",
        "--no-gradient-accumulation-fusion",
        "--no-load-rng",
        "--data-path=" + (core / "continued/data").string()};
    args.insert(args.end(), form.args.begin(), form.args.end());
    if (form.from.starts_with("squared_relu")) {
      for (const char* arg :
           {"--squared-relu",
            "--decoupled-lr=0.01",
            "--decoupled-min-lr=0.002"}) {
        args.emplace_back(arg);
      }
    } else {
      // With this flag Megatron gives all groups one learning rate.
      args.emplace_back("--override-opt_param-scheduler");
      args.emplace_back("--swiglu");
    }
    if (form.from.starts_with("moe")) {
      for (const char* arg :
           {"--num-experts=4",
            "--moe-router-topk=2",
            "--moe-ffn-hidden-size=20",
            "--moe-router-load-balancing-type=none",
            "--moe-token-dispatcher-type=allgather"}) {
        args.emplace_back(arg);
      }
    }
    std::ofstream(options.output / "case.json") << json{
        {"ranks", form.ranks},
        {"args", args},
        {"losses", losses.at(form.from)},
        {"tolerance", form.tolerance}};
  }
  testing::run_python_tool("check_megatron_lm.py", {folder.path().string()});
}

/// Megatron-LM trains on from the BERT and the T5 that we write, with its
/// programs pretrain_bert.py and pretrain_t5.py.
TEST(RealPython, MegatronLmGoesOnWithABertAndAT5) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path core =
      std::filesystem::path(CAIRN_GOLDEN_DIR) / "checkpoints_core";
  std::ifstream file(core / "continued/losses.json");
  const json losses = json::parse(file);
  struct Form {
    std::string program;
    std::string from;
    ConvertOptions options{};
    std::string args;
    double tolerance = 2e-5;
    std::int64_t padding = 8; ///< of which the vocabulary is a multiple
  };
  const ConvertOptions local{
      .output = {},
      .megatron_names = MegatronNames::core_local};
  const ConvertOptions dist{
      .output = {},
      .megatron_format = MegatronFormat::torch_dist};
  ConvertOptions flat = local;
  flat.megatron_distributed_optimizer = true;
  flat.type = at::kBFloat16;
  const std::string half =
      "--ckpt-format=torch --bf16 --use-distributed-optimizer "
      "--accumulate-allreduce-grads-in-fp32";
  const std::vector<Form> forms{
      {"bert", "bert/dist", local, "--ckpt-format=torch"},
      {"bert", "bert/torch_pp2", dist, "--ckpt-format=torch_dist"},
      {"bert", "bert/dist_bf16_distopt", flat, half, 5e-3},
      {"t5", "t5/dist", local, "--ckpt-format=torch"},
      {"t5", "t5/torch_tp2", dist, "--ckpt-format=torch_dist", 2e-5, 16},
      {"t5", "t5/dist_bf16_distopt", flat, half, 5e-3}};
  int number = 0;
  for (const Form& form : forms) {
    ConvertOptions options = form.options;
    options.input = core / form.from;
    options.output = folder.path() / std::to_string(number++);
    options.to = CheckpointFormat::megatron;
    options.vocabulary_multiple = form.padding;
    options.megatron.keep_padding = true;
    convert(options);
    std::istringstream words(
        "--hidden-size=8 --num-attention-heads=2 --ffn-hidden-size=20 "
        "--max-position-embeddings=24 "
        "--tokenizer-type=BertWordPieceLowerCase --hidden-dropout=0 "
        "--attention-dropout=0 --lr=0.02 --min-lr=0.001 --lr-warmup-iters=2 "
        "--lr-decay-iters=20 --lr-decay-style=cosine --weight-decay=0.1 "
        "--adam-beta2=0.95 --clip-grad=1.0 "
        "--global-batch-size=4 --train-iters=15 --eval-iters=0 "
        "--eval-interval=1000 --log-interval=1 --split=100,0,0 --seed=1234 "
        "--short-seq-prob=0 --num-workers=0 --transformer-impl=local "
        "--no-bias-gelu-fusion --no-masked-softmax-fusion "
        "--no-bias-dropout-fusion --no-persist-layer-norm "
        "--no-gradient-accumulation-fusion --no-load-rng "
        "--override-opt_param-scheduler " +
        (form.program == "bert"
             ? std::string("--num-layers=2 --seq-length=24 --spec local "
                           "--micro-batch-size=2 ")
             : std::string("--encoder-num-layers=2 --decoder-num-layers=2 "
                           "--encoder-seq-length=24 --decoder-seq-length=12 "
                           "--vocab-extra-ids=16 --micro-batch-size=4 ")) +
        form.args);
    std::vector<std::string> args{
        fmt::format("--make-vocab-size-divisible-by={}", form.padding),
        "--vocab-file=" + (core / "continued/vocab.txt").string(),
        "--data-path=" + (core / "continued/sentences").string()};
    for (std::string word; words >> word;) {
      args.push_back(word);
    }
    std::ofstream(options.output / "case.json") << json{
        {"program", form.program},
        {"ranks", 1},
        {"args", args},
        {"losses", losses.at(form.from)},
        {"tolerance", form.tolerance}};
  }
  testing::run_python_tool("check_megatron_lm.py", {folder.path().string()});
}

/// Megatron-DeepSpeed goes on with what we make of one run of its own, for
/// other ranks, and has the losses that it would have had.
TEST(RealPython, MegatronDeepSpeedGoesOn) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path core =
      std::filesystem::path(CAIRN_GOLDEN_DIR) / "checkpoints_core";
  // It leaves indices beside its data.
  for (const char* name : {"data.bin", "data.idx"}) {
    std::filesystem::copy_file(core / "continued" / name, folder.path() / name);
  }
  std::ifstream file(core / "continued/losses.json");
  const std::vector<double> losses =
      json::parse(file).at("gpt_mds/zero1_pp2_dp2");
  struct Form {
    std::string name;
    ConvertOptions options;
    int ranks;
    std::vector<std::string> args;
  };
  const std::vector<Form> forms{
      {"pipeline",
       {.output = {},
        .split = {.tensor = 2},
        .zero_ranks = 2,
        .megatron_deepspeed = MegatronDeepSpeed::pipeline},
       4,
       {"--tensor-model-parallel-size", "2", "--zero-stage", "1"}},
      {"no_pipeline",
       {.output = {},
        .zero_stage = 2,
        .zero_ranks = 2,
        .megatron_deepspeed = MegatronDeepSpeed::no_pipeline},
       2,
       // The run's vocabulary is padded for two tensor parallel ranks.
       {"--no-pipeline-parallel",
        "--zero-stage",
        "2",
        "--make-vocab-size-divisible-by",
        "8"}},
      {"universal",
       {.universal = true, .megatron_deepspeed = MegatronDeepSpeed::pipeline},
       4,
       {"--universal-checkpoint",
        "--tensor-model-parallel-size",
        "2",
        "--pipeline-model-parallel-size",
        "2",
        "--zero-stage",
        "1"}}};
  for (const Form& form : forms) {
    ConvertOptions options = form.options;
    options.input = core / "gpt_mds/zero1_pp2_dp2";
    options.output = folder.path() / form.name;
    options.to = CheckpointFormat::deepspeed;
    options.vocabulary_multiple = 4;
    options.megatron.keep_padding = true;
    convert(options);
    std::vector<std::string> args{
        "--num-layers=2",
        "--hidden-size=16",
        "--num-attention-heads=4",
        "--ffn-hidden-size=36",
        "--seq-length=14",
        "--max-position-embeddings=14",
        "--vocab-size=48",
        "--make-vocab-size-divisible-by=4",
        "--lr=0.02",
        "--tokenizer-type=NullTokenizer",
        "--min-lr=0.001",
        "--lr-warmup-iters=2",
        "--lr-decay-iters=5",
        "--lr-decay-style=cosine",
        "--weight-decay=0.1",
        "--adam-beta2=0.95",
        "--clip-grad=1.0",
        "--hidden-dropout=0",
        "--attention-dropout=0",
        "--micro-batch-size=2",
        "--global-batch-size=8",
        "--train-iters=15",
        "--eval-iters=0",
        "--eval-interval=1000",
        "--log-interval=1",
        "--save-interval=1000",
        "--split=100,0,0",
        "--distributed-backend=gloo",
        "--data-impl=mmap",
        "--use-cpu-initialization",
        "--fp16",
        "--no-masked-softmax-fusion",
        "--no-bias-gelu-fusion",
        "--no-bias-dropout-fusion",
        "--no-load-rng",
        "--no-gradient-accumulation-fusion",
        "--seed=1234",
        "--override-opt_param-scheduler",
        "--data-path"};
    args.push_back((folder.path() / "data").string());
    args.insert(args.end(), form.args.begin(), form.args.end());
    std::ofstream(options.output / "case.json") << json{
        {"ranks", form.ranks},
        {"args", args},
        {"config",
         {{"train_batch_size", 8},
          {"train_micro_batch_size_per_gpu", 2},
          {"gradient_clipping", 1.0},
          {"zero_optimization", {{"stage", options.zero_stage.value_or(1)}}},
          {"checkpoint", {{"load_universal", options.universal}}},
          {"fp16", {{"enabled", true}, {"initial_scale_power", 8}}}}},
        {"losses", losses},
        {"tolerance", 5e-4}};
  }
  testing::run_python_tool(
      "check_megatron_deepspeed.py",
      {folder.path().string()});
}

} // namespace
} // namespace cairn::checkpoints::python_test
