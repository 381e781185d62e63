#include "corpus/internal/download_catalogue.h"

#include "data/internal/line_reader.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

// Sources of the checksums:
//   gpt2: OpenAI's tiktoken expects these two for encoder.json and vocab.bpe,
//     which are the same bytes under their original names.
//   bert: NVIDIA's BERT recipe lists them for vocab.txt of Google's
//     uncased_L-24_H-1024_A-16 and cased_L-24_H-1024_A-16.
//   roberta-base: Julia's KeemenaSubwords and others; its merges are GPT-2's.
//   cifar-10: Julia's MLDatasets and others; its MD5 is on the authors' page.
//   wikitext: Julia's CorpusLoaders and others.
// Nobody publishes checksums of the other files.

namespace cairn::corpus {
namespace {

using namespace std::string_literals;

constexpr char vocabularies[] =
    "https://s3.amazonaws.com/models.huggingface.co/bert/";
constexpr char hub[] = "https://huggingface.co/";
constexpr char openai[] =
    "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/";
constexpr char ngc[] = "https://api.ngc.nvidia.com/v2/models/nvidia/";

constexpr char gpt2_merges_sha256[] =
    "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5";
constexpr std::uint64_t gpt2_merges_size = 456'318;

CatalogueEntry gpt2() {
  return {
      .name = "gpt2",
      .summary = "GPT-2's vocabulary and merges",
      .files = {
          {.name = "gpt2-vocab.json",
           .addresses =
               {vocabularies + "gpt2-vocab.json"s,
                hub + "openai-community/gpt2/resolve/main/vocab.json"s,
                openai + "encoder.json"s},
           .sha256 = "196139668be63f3b5d6574427317ae82"
                     "f612a97c5d1cdaf36ed2256dbf636783",
           .size = 1'042'301},
          {.name = "gpt2-merges.txt",
           .addresses =
               {vocabularies + "gpt2-merges.txt"s,
                hub + "openai-community/gpt2/resolve/main/merges.txt"s,
                openai + "vocab.bpe"s},
           .sha256 = gpt2_merges_sha256,
           .size = gpt2_merges_size}}};
}

/// Makes a folder that `--tokenizer-model` and `train_bert --tokenizer` accept.
CatalogueEntry roberta() {
  const std::string base = hub + "FacebookAI/roberta-base/resolve/main/"s;
  return {
      .name = "roberta-base",
      .summary = "RoBERTa's vocabulary and merges",
      .files =
          {{.name = "vocab.json",
            .addresses =
                {base + "vocab.json",
                 vocabularies + "roberta-base-vocab.json"s},
            .sha256 = "9e7f63c2d15d666b52e21d250d2e513b"
                      "87c9b713cfa6987a82ed89e5e6e50655",
            .size = 898'823},
           {.name = "merges.txt",
            .addresses =
                {base + "merges.txt",
                 vocabularies + "roberta-base-merges.txt"s},
            .sha256 = gpt2_merges_sha256,
            .size = gpt2_merges_size}},
      .folder = "roberta-base"};
}

CatalogueEntry bert(
    const std::string& kind,
    const std::string& sha256,
    std::uint64_t size) {
  const auto name = fmt::format("bert-large-{}-vocab.txt", kind);
  return {
      .name = "bert-" + kind,
      .summary = fmt::format("BERT's {} WordPiece vocabulary", kind),
      .files = {
          {.name = name,
           .addresses =
               {vocabularies + name,
                fmt::format(
                    "{}google-bert/bert-large-{}/resolve/main/vocab.txt",
                    hub,
                    kind)},
           .sha256 = sha256,
           .size = size}}};
}

/// A Megatron-LM checkpoint, under the path that its examples load.
CatalogueEntry megatron(
    const std::string& name,
    const std::string& summary,
    const std::string& model,
    const std::string& version,
    const std::string& folder) {
  return {
      .name = name,
      .summary = summary,
      .files =
          {{.name = fmt::format("{}_{}.zip", model, version),
            .addresses =
                {fmt::format("{}{}/versions/{}/zip", ngc, model, version)}}},
      .folder = "checkpoints/" + folder,
      .unpacked = {
          "latest_checkpointed_iteration.txt",
          "release/mp_rank_00/model_optim_rng.pt"}};
}

CatalogueEntry wikitext(
    const std::string& size,
    const std::string& summary,
    const std::string& sha256) {
  const auto folder = "wikitext-" + size;
  const auto name = folder + "-v1.zip";
  return {
      .name = folder,
      .summary = summary,
      .files =
          {{.name = name,
            .addresses =
                {"https://wikitext.smerity.com/" + name,
                 "https://s3.amazonaws.com/research.metamind.io/wikitext/" +
                     name},
            .sha256 = sha256}},
      .unpacked = {
          folder + "/wiki.train.tokens",
          folder + "/wiki.valid.tokens",
          folder + "/wiki.test.tokens"}};
}

CatalogueEntry cifar10() {
  std::vector<std::string> unpacked;
  for (const char* name :
       {"batches.meta.txt",
        "data_batch_1.bin",
        "data_batch_2.bin",
        "data_batch_3.bin",
        "data_batch_4.bin",
        "data_batch_5.bin",
        "test_batch.bin"}) {
    unpacked.push_back(fmt::format("cifar-10-batches-bin/{}", name));
  }
  return {
      .name = "cifar-10",
      .summary = "60,000 small pictures in ten classes, binary version",
      .files =
          {{.name = "cifar-10-binary.tar.gz",
            .addresses =
                {"https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                 "https://cave.cs.toronto.edu/kriz/cifar-10-binary.tar.gz"},
            .sha256 = "c4a38c50a1bc5f3a1c5537f2155ab9d6"
                      "8f9f25eb1ed8d9ddda3db29a59bca1dd",
            .size = 170'052'171}},
      .unpacked = unpacked};
}

/// The dump of one language. Dashes become underscores in file names:
/// "zh-min-nan" has zh_min_nanwiki-….
CatalogueEntry wikipedia(std::string language) {
  const bool plain = !language.empty() && language.size() <= 32 &&
      language.front() != '-' &&
      std::all_of(language.begin(), language.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || c == '-';
      });
  if (!plain) {
    throw ConfigError(
        {.what = fmt::format(
             "\"{}\" is no code of one of Wikipedia's languages",
             language),
         .where = "--language",
         .remedy = "use what stands before .wikipedia.org: en, de, zh, …"});
  }
  std::replace(language.begin(), language.end(), '-', '_');
  const auto latest = fmt::format(
      "https://dumps.wikimedia.org/{0}wiki/latest/{0}wiki-latest-",
      language);
  const auto name =
      fmt::format("{}wiki-latest-pages-articles.xml.bz2", language);
  return {
      .name = "wikipedia",
      .summary = "the articles of one --language, latest dump (en: over 20 GB)",
      .files =
          {{.name = name,
            .addresses = {latest + "pages-articles.xml.bz2"},
            .sums_address = latest + "sha1sums.txt",
            .sums_suffix = "-pages-articles.xml.bz2"}},
      .next = fmt::format(
          "`cairn data wiki {} --output {}wiki.jsonl` extracts the text",
          name,
          language)};
}

CatalogueEntry tiny_shakespeare() {
  return {
      .name = "tiny-shakespeare",
      .summary = "1.1 MB of Shakespeare as plain text",
      .files = {
          {.name = "input.txt",
           .addresses = {"https://raw.githubusercontent.com/karpathy/char-rnn/"
                         "master/data/tinyshakespeare/input.txt"}}}};
}

} // namespace

std::vector<CatalogueEntry> download_catalogue(const std::string& language) {
  return {
      gpt2(),
      bert(
          "uncased",
          "07eced375cec144d27c900241f3e3394"
          "78dec958f92fddbc551f295c992038a3",
          231'508),
      bert(
          "cased",
          "eeaa9875b23b04b4c54ef759d03db9d1"
          "ba1554838f8fb26c5d96fa551df93d02",
          213'450),
      roberta(),
      wikipedia(language),
      wikitext(
          "2",
          "two million tokens of Wikipedia articles",
          "92675f1d63015c1c8b51f1656a52d5bd"
          "bc33aafa60cc47a218a66e7ee817488c"),
      wikitext(
          "103",
          "a hundred million tokens of Wikipedia articles",
          "242ba0f20b329cfdf1ccc61e9e9e5b59"
          "becf189db7f7a81cd2a0e2fc31539590"),
      tiny_shakespeare(),
      cifar10(),
      megatron(
          "megatron-gpt-345m",
          "Megatron-LM's pretrained GPT with 345 M parameters",
          "megatron_lm_345m",
          "v0.0",
          "gpt2_345m"),
      megatron(
          "megatron-bert-345m-uncased",
          "Megatron-LM's pretrained BERT, lower case",
          "megatron_bert_345m",
          "v0.1_uncased",
          "bert_345m"),
      megatron(
          "megatron-bert-345m-cased",
          "Megatron-LM's pretrained BERT, both cases",
          "megatron_bert_345m",
          "v0.1_cased",
          "bert_345m_cased")};
}

std::optional<std::string> listed_sum(
    const std::string& list,
    const std::string& suffix) {
  std::optional<std::string> found;
  std::string_view rest = list;
  while (!rest.empty()) {
    const std::string_view line = data::take_line(rest);
    const auto sum = line.substr(0, std::min(line.find(' '), line.size()));
    if (!line.ends_with(suffix) || sum.size() != 40 ||
        sum.find_first_not_of("0123456789abcdef") != sum.npos) {
      continue;
    }
    if (found) {
      return std::nullopt;
    }
    found = sum;
  }
  return found;
}

} // namespace cairn::corpus
