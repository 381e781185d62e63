#!/usr/bin/env python3
"""hf_models.py BERT-large|T5-345M|T5-220M BATCH [compile|eager] [--steps N] [--device cpu] [--tiny] [--no-mask]

Trains BERT or T5 of Hugging Face's transformers on one GPU with random tokens and prints a
line "RESULT {json}": bf16 autocast over fp32 weights, sdpa attention, fused AdamW,
gradients clipped at 1, no dropout. It needs torch and transformers.

BERT fills in 15% of the tokens and tells whether two sentences follow each other. T5 is
T5 1.0 with GELU. Tokens per second count the encoder's and the decoder's. Texts come with
a mask of their padding, though there is none, as texts of real data do; --no-mask leaves it
out, which lets BERT use flash attention.
"""

import torch
import transformers

import training

BERT = {"BERT-large": {"layers": 24, "heads": 16, "hidden": 1024, "length": 512}}
T5 = {
    "T5-345M": {"layers": 10, "heads": 16, "hidden": 1024, "length": 512, "decoder_length": 128},
    "T5-220M": {"layers": 12, "heads": 12, "hidden": 768, "length": 512, "decoder_length": 128},
}
TINY = {"layers": 2, "heads": 2, "hidden": 64, "length": 64, "decoder_length": 32}


def bert(options, shape):
    """The model, a function that draws a batch, and the tokens of a sample."""
    config = transformers.BertConfig(
        vocab_size=training.VOCABULARY,
        hidden_size=shape["hidden"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        intermediate_size=4 * shape["hidden"],
        max_position_embeddings=shape["length"],
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation="sdpa",
    )
    size = (options.batch, shape["length"])

    def draw_batch():
        labels = training.random_tokens(options, *size)
        unmasked = torch.rand(size, device=options.device) >= 0.15
        second = torch.arange(shape["length"], device=options.device) >= shape["length"] // 2
        return {
            "input_ids": training.random_tokens(options, *size),
            "token_type_ids": second.long().expand(size).contiguous(),
            "labels": labels.masked_fill(unmasked, -100),
            "next_sentence_label": training.random_tokens(options, options.batch, below=2),
        }

    return transformers.BertForPreTraining(config), draw_batch, shape["length"]


def t5(options, shape):
    config = transformers.T5Config(
        vocab_size=training.VOCABULARY,
        d_model=shape["hidden"],
        d_kv=shape["hidden"] // shape["heads"],
        d_ff=4 * shape["hidden"],
        num_layers=shape["layers"],
        num_decoder_layers=shape["layers"],
        num_heads=shape["heads"],
        feed_forward_proj="gelu",
        dropout_rate=0.0,
        decoder_start_token_id=0,
        use_cache=False,
        attn_implementation="sdpa",
    )

    def draw_batch():
        return {
            "input_ids": training.random_tokens(options, options.batch, shape["length"]),
            "labels": training.random_tokens(options, options.batch, shape["decoder_length"]),
            "use_cache": False,
        }

    return transformers.T5ForConditionalGeneration(config), draw_batch, shape["length"] + shape["decoder_length"]


def main():
    parser = training.command_line(__doc__, [*BERT, *T5])
    parser.add_argument("--no-mask", action="store_true", help="texts come without a mask of their padding")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    family, models = (bert, BERT) if options.model in BERT else (t5, T5)
    with torch.device(options.device):
        model, draw, tokens = family(options, TINY if options.tiny else models[options.model])
    model.train()

    def draw_batch():
        batch = draw()
        mask = {} if options.no_mask else {"attention_mask": torch.ones_like(batch["input_ids"])}
        return batch | mask

    def loss_of(batch):
        with torch.autocast(options.device, dtype=torch.bfloat16):
            return model(**batch).loss

    training.train(options, model, loss_of, draw_batch, tokens)


if __name__ == "__main__":
    main()
