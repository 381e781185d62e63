#pragma once

#include <cairn/config/deepspeed_config.h>
#include <cairn/config/flags.h>
#include <cairn/config/precision_config.h>
#include <cairn/config/training_config.h>
#include <cairn/config/zero_config.h>

#include <array>
#include <string_view>
#include <utility>

namespace cairn::config {

/// The spellings of an enum's values in files and flags. The first spelling of
/// a value is the one that is printed.
template <typename E>
struct EnumNames;

/// The spelling of a value that is printed.
template <typename E>
constexpr std::string_view spelling(E value) {
  for (const auto& [each, name] : EnumNames<E>::list) {
    if (each == value) {
      return name;
    }
  }
  return {};
}

template <typename E, std::size_t n>
using NameList = std::array<std::pair<E, std::string_view>, n>;

template <>
struct EnumNames<OffloadDevice> {
  static constexpr NameList<OffloadDevice, 3> list{
      {{OffloadDevice::none, "none"},
       {OffloadDevice::cpu, "cpu"},
       {OffloadDevice::nvme, "nvme"}}};
};

template <>
struct EnumNames<OffloadUpdate> {
  static constexpr NameList<OffloadUpdate, 3> list{
      {{OffloadUpdate::cpu, "cpu"},
       {OffloadUpdate::gpu, "gpu"},
       {OffloadUpdate::measured, "measured"}}};
};

template <>
struct EnumNames<DataType> {
  static constexpr NameList<DataType, 3> list{
      {{DataType::fp32, "fp32"},
       {DataType::fp16, "fp16"},
       {DataType::bf16, "bf16"}}};
};

template <>
struct EnumNames<AtMinimumScale> {
  static constexpr NameList<AtMinimumScale, 3> list{
      {{AtMinimumScale::stop, "stop"},
       {AtMinimumScale::hold, "hold"},
       {AtMinimumScale::roll_back, "roll_back"}}};
};

template <>
struct EnumNames<ReduceOp> {
  static constexpr NameList<ReduceOp, 2> list{
      {{ReduceOp::mean, "mean"}, {ReduceOp::sum, "sum"}}};
};

template <>
struct EnumNames<TagValidation> {
  static constexpr NameList<TagValidation, 3> list{
      {{TagValidation::ignore, "Ignore"},
       {TagValidation::warn, "Warn"},
       {TagValidation::fail, "Fail"}}};
};

template <>
struct EnumNames<CurriculumSchedule> {
  static constexpr NameList<CurriculumSchedule, 3> list{
      {{CurriculumSchedule::fixed_linear, "fixed_linear"},
       {CurriculumSchedule::fixed_root, "fixed_root"},
       {CurriculumSchedule::fixed_discrete, "fixed_discrete"}}};
};

template <>
struct EnumNames<TuningMetric> {
  static constexpr NameList<TuningMetric, 3> list{
      {{TuningMetric::latency, "latency"},
       {TuningMetric::throughput, "throughput"},
       {TuningMetric::flops, "flops"}}};
};

template <>
struct EnumNames<TunerType> {
  static constexpr NameList<TunerType, 3> list{
      {{TunerType::gridsearch, "gridsearch"},
       {TunerType::random, "random"},
       {TunerType::model_based, "model_based"}}};
};

template <>
struct EnumNames<PositionEmbedding> {
  static constexpr NameList<PositionEmbedding, 4> list{
      {{PositionEmbedding::learned_absolute, "learned_absolute"},
       {PositionEmbedding::rope, "rope"},
       {PositionEmbedding::relative, "relative"},
       {PositionEmbedding::none, "none"}}};
};

template <>
struct EnumNames<model::RouterNoise> {
  static constexpr NameList<model::RouterNoise, 3> list{
      {{model::RouterNoise::none, "None"},
       {model::RouterNoise::jitter, "Jitter"},
       {model::RouterNoise::sample, "RSample"}}};
};

template <>
struct EnumNames<model::NormKind> {
  static constexpr NameList<model::NormKind, 2> list{
      {{model::NormKind::layer_norm, "LayerNorm"},
       {model::NormKind::rms_norm, "RMSNorm"}}};
};

template <>
struct EnumNames<OptimizerKind> {
  static constexpr NameList<OptimizerKind, 7> list{
      {{OptimizerKind::adam, "adam"},
       {OptimizerKind::adamw, "adamw"},
       {OptimizerKind::sgd, "sgd"},
       {OptimizerKind::adagrad, "adagrad"},
       {OptimizerKind::lamb, "lamb"},
       {OptimizerKind::lion, "lion"},
       {OptimizerKind::muon, "muon"}}};
};

template <>
struct EnumNames<LrDecayStyle> {
  static constexpr NameList<LrDecayStyle, 5> list{
      {{LrDecayStyle::constant, "constant"},
       {LrDecayStyle::linear, "linear"},
       {LrDecayStyle::cosine, "cosine"},
       {LrDecayStyle::inverse_square_root, "inverse-square-root"},
       {LrDecayStyle::wsd, "WSD"}}};
};

template <>
struct EnumNames<WsdDecayStyle> {
  static constexpr NameList<WsdDecayStyle, 4> list{
      {{WsdDecayStyle::exponential, "exponential"},
       {WsdDecayStyle::linear, "linear"},
       {WsdDecayStyle::cosine, "cosine"},
       {WsdDecayStyle::minus_sqrt, "minus_sqrt"}}};
};

template <>
struct EnumNames<WeightDecayStyle> {
  static constexpr NameList<WeightDecayStyle, 3> list{
      {{WeightDecayStyle::constant, "constant"},
       {WeightDecayStyle::linear, "linear"},
       {WeightDecayStyle::cosine, "cosine"}}};
};

template <>
struct EnumNames<RecomputeGranularity> {
  static constexpr NameList<RecomputeGranularity, 2> list{
      {{RecomputeGranularity::full, "full"},
       {RecomputeGranularity::selective, "selective"}}};
};

template <>
struct EnumNames<RecomputeMethod> {
  static constexpr NameList<RecomputeMethod, 2> list{
      {{RecomputeMethod::uniform, "uniform"},
       {RecomputeMethod::block, "block"}}};
};

template <>
struct EnumNames<DdpImpl> {
  static constexpr NameList<DdpImpl, 2> list{
      {{DdpImpl::local, "local"}, {DdpImpl::torch, "torch"}}};
};

template <>
struct EnumNames<Backend> {
  static constexpr NameList<Backend, 3> list{
      {{Backend::nccl, "nccl"},
       {Backend::gloo, "gloo"},
       {Backend::local, "local"}}};
};

template <>
struct EnumNames<DatasetImpl> {
  static constexpr NameList<DatasetImpl, 4> list{
      {{DatasetImpl::mmap, "mmap"},
       {DatasetImpl::cached, "cached"},
       {DatasetImpl::lazy, "lazy"},
       {DatasetImpl::infer, "infer"}}};
};

template <>
struct EnumNames<LoaderType> {
  static constexpr NameList<LoaderType, 2> list{
      {{LoaderType::single, "single"}, {LoaderType::cyclic, "cyclic"}}};
};

template <>
struct EnumNames<CudaGraphs> {
  static constexpr NameList<CudaGraphs, 2> list{
      {{CudaGraphs::none, "none"}, {CudaGraphs::local, "local"}}};
};

template <>
struct EnumNames<Fp8Format> {
  static constexpr NameList<Fp8Format, 2> list{
      {{Fp8Format::e4m3, "e4m3"}, {Fp8Format::hybrid, "hybrid"}}};
};

template <>
struct EnumNames<Fp8Recipe> {
  static constexpr NameList<Fp8Recipe, 4> list{
      {{Fp8Recipe::tensorwise, "tensorwise"},
       {Fp8Recipe::delayed, "delayed"},
       {Fp8Recipe::blockwise, "blockwise"},
       {Fp8Recipe::mxfp8, "mxfp8"}}};
};

template <>
struct EnumNames<Fp8AmaxAlgo> {
  static constexpr NameList<Fp8AmaxAlgo, 2> list{
      {{Fp8AmaxAlgo::most_recent, "most_recent"}, {Fp8AmaxAlgo::max, "max"}}};
};

template <>
struct EnumNames<ContextParallelKind> {
  static constexpr NameList<ContextParallelKind, 2> list{
      {{ContextParallelKind::ring, "p2p"},
       {ContextParallelKind::ulysses, "a2a"}}};
};

template <>
struct EnumNames<PipelineSchedule> {
  static constexpr NameList<PipelineSchedule, 4> list{
      {{PipelineSchedule::gpipe, "gpipe"},
       {PipelineSchedule::one_f_one_b, "1f1b"},
       {PipelineSchedule::interleaved, "interleaved"},
       {PipelineSchedule::zero_bubble, "zb-h1"}}};
};

} // namespace cairn::config
