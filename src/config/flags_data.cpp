#include "config/flag.h"

namespace cairn::config {

void add_data_flags(std::vector<Flag>& table) {
  using F = Flags;
  using D = DataFlags;
  using V = ValidationFlags;
  FlagGroup validation(table, "validation");
  validation
      .flag<&F::validation, &V::eval_iters>(
          "--eval-iters",
          "Batches per evaluation.")
      .at_least(0);
  validation
      .flag<&F::validation, &V::eval_interval>(
          "--eval-interval",
          "Steps between evaluations.")
      .at_least(1);
  validation.flag<&F::validation, &V::skip_train>(
      "--skip-train",
      "Evaluate only.");
  validation
      .flag<&F::validation, &V::task>(
          "--task",
          "What to evaluate or fine-tune on.")
      .one_of(
          {"WIKITEXT103",
           "LAMBADA",
           "RACE",
           "MNLI",
           "QQP",
           "QNLI",
           "SST-2",
           "CoLA",
           "STS-B",
           "MRPC",
           "RTE",
           "HELLASWAG"});
  validation.flag<&F::validation, &V::train_data>(
      "--train-data",
      "Training files of a task, or names of corpora.");
  validation.flag<&F::validation, &V::valid_data>(
      "--valid-data",
      "Validation files of a task.");
  validation
      .flag<&F::validation, &V::epochs>(
          "--epochs",
          "Passes over the training files of a task.")
      .at_least(0);
  validation
      .flag<&F::validation, &V::overlapping_eval>(
          "--overlapping-eval",
          "Tokens by which the evaluation window moves.")
      .at_least(1);
  validation.flag<&F::validation, &V::strict_lambada>(
      "--strict-lambada",
      "Score whole last words in LAMBADA.");

  FlagGroup data(table, "data");
  data.flag<&F::data, &D::data_path>(
      "--data-path",
      "Prefix of the .bin and .idx files, or weights and prefixes in "
      "turn.");
  data.flag<&F::data, &D::train_data_path>(
      "--train-data-path",
      "The same for training only.");
  data.flag<&F::data, &D::valid_data_path>(
      "--valid-data-path",
      "The same for validation only.");
  data.flag<&F::data, &D::test_data_path>(
      "--test-data-path",
      "The same for testing only.");
  data.flag<&F::data, &D::split>(
      "--split",
      "Shares of training, validation and test.");
  data.flag<&F::data, &D::impl>("--data-impl", "Format of the data files.")
      .also("--dataset-impl");
  data.flag<&F::data, &D::cache_path>(
          "--data-cache-path",
          "Folder for index files.")
      .by_default("beside the data");
  data.flag<&F::data, &D::num_workers>(
          "--num-workers",
          "Threads that read ahead.")
      .at_least(0);
  data.flag<&F::data, &D::loader>(
      "--dataloader-type",
      "One pass in order, or shuffled passes.");
  data.flag<&F::data, &D::lazy_loader>(
          "--lazy-loader",
          "Read documents when they are needed.")
      .without_effect("data is always mapped, never read ahead of need");
  data.flag<&F::data, &D::mock_data>(
      "--mock-data",
      "Made-up data, to measure speed.");
  data.flag<&F::data, &D::seq_length>("--seq-length", "Tokens per sample.")
      .at_least(1)
      .also("--max_seq_length");
  data.flag<&F::data, &D::encoder_seq_length>(
          "--encoder-seq-length",
          "Tokens for the encoder (T5).")
      .at_least(1)
      .by_default("--seq-length");
  data.flag<&F::data, &D::decoder_seq_length>(
          "--decoder-seq-length",
          "Tokens for the decoder (T5).")
      .at_least(1);
  data.flag<&F::data, &D::mask_prob>(
          "--mask-prob",
          "Part of the tokens that is masked (BERT, T5).")
      .at_least(0)
      .at_most(1);
  data.flag<&F::data, &D::short_seq_prob>(
          "--short-seq-prob",
          "Part of the samples made short (BERT).")
      .at_least(0)
      .at_most(1);
  data.flag<&F::data, &D::reset_position_ids>(
      "--reset-position-ids",
      "Count positions anew after each document.");
  data.flag<&F::data, &D::reset_attention_mask>(
      "--reset-attention-mask",
      "Keep attention within a document.");
  data.flag<&F::data, &D::eod_mask_loss>(
      "--eod-mask-loss",
      "Leave ends of documents out of the loss.");
  data.flag<&F::data, &D::random_ltd>(
      "--random-ltd",
      "Drop tokens in some layers, as data_efficiency of the JSON file says.");

  using P = PreprocessFlags;
  FlagGroup preprocess(table, "preprocessing");
  preprocess.flag<&F::preprocess, &P::input>(
      "--input",
      "Files with one JSON object per line.");
  preprocess.flag<&F::preprocess, &P::output_prefix>(
      "--output-prefix",
      "Start of the names of the files written.");
  preprocess
      .flag<&F::preprocess, &P::json_keys>(
          "--json-keys",
          "Fields that hold text.")
      .also("--json-key");
  preprocess.flag<&F::preprocess, &P::split_sentences>(
      "--split-sentences",
      "Store sentences instead of documents (BERT).");
  preprocess.flag<&F::preprocess, &P::keep_newlines>(
      "--keep-newlines",
      "Keep line ends when splitting sentences.");
  preprocess.flag<&F::preprocess, &P::lang>(
      "--lang",
      "Language of the sentences.");
  preprocess.flag<&F::preprocess, &P::append_eod>(
      "--append-eod",
      "End each document with the end-of-document token.");
  preprocess.flag<&F::preprocess, &P::workers>("--workers", "Threads.")
      .at_least(1);
  preprocess
      .flag<&F::preprocess, &P::partitions>(
          "--partitions",
          "Parts the input is worked on in.")
      .at_least(1);

  using T = TokenizerFlags;
  FlagGroup tokenizer(table, "tokenizer");
  tokenizer
      .flag<&F::tokenizer, &T::type>("--tokenizer-type", "Kind of tokenizer.")
      .one_of(
          {"GPT2BPETokenizer",
           "BertWordPieceLowerCase",
           "BertWordPieceCase",
           "RobertaTokenizer",
           "SentencePieceTokenizer",
           "GPTSentencePieceTokenizer",
           "Llama2Tokenizer",
           "HuggingFaceTokenizer",
           "HFTokenizer",
           "CharTokenizer",
           "NullTokenizer"});
  tokenizer
      .flag<&F::tokenizer, &T::vocab_file>("--vocab-file", "Its vocabulary.")
      .also("--vocab");
  tokenizer.flag<&F::tokenizer, &T::merge_file>("--merge-file", "Its merges.");
  tokenizer.flag<&F::tokenizer, &T::model>(
      "--tokenizer-model",
      "Its model file or folder.");
  tokenizer
      .flag<&F::tokenizer, &T::vocab_size>(
          "--vocab-size",
          "Size of the vocabulary before padding.")
      .at_least(1)
      .by_default("the tokenizer's");
  tokenizer
      .flag<&F::tokenizer, &T::vocab_extra_ids>(
          "--vocab-extra-ids",
          "Sentinel tokens to add (T5).")
      .at_least(0);
}

} // namespace cairn::config
