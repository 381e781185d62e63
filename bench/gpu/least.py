#!/usr/bin/env python3
"""least.py ROW…

Says the least time that the components of a training step can take on an H200, as a table in
Markdown: their multiplications and additions at 790 TFLOP/s, which is what large bf16 products
reach there, and the bytes that must move at 4.2 TB/s, the speed of a copy. ROW is a row of
run.py, such as 350M/32. Attention has no line: it is cuDNN's, at what cuDNN takes.

What is counted, in bytes for a token and a feature of the stream:

  norms        forward 4 (read, written), with the residual's sum 8; in GPT every other sum is
               part of a product. Backward 8: the norm's input, its gradient, the residual's, and
               the sum that is written
  joined       backward 4 for each of queries, keys and values; with rotary positions also forward
  bias sums    2 for each column of the three gradients that no other kernel sums up
  SwiGLU       forward 6, backward 12 for each feature of the feed-forward part. GELU is part of
               the products
  loss         4 for each score: read and written once
  update       30 for each parameter: a gradient of 2 bytes read for the norm and again for the
               update, weight and two moments of 4 bytes read and written, 2 bytes written in bf16
"""

import argparse
import sys

from run import MODELS, VOCABULARY

OPERATIONS = 790e12
BYTES = 4.2e12
LABELS = 0.15  # the share of BERT's tokens whose scores are computed


def streams_of(model):
    """(tokens of a sample, layers, parts of a layer, attentions of a layer)"""
    streams = [(model.length, model.layers, 2, 1)]
    if model.decoder:
        streams.append((model.decoder, model.layers, 3, 2))
    return streams


def key_value_width(model):
    return model.hidden * model.groups // model.heads


def weights_of_block(model, attentions):
    attention = 2 * model.hidden * (model.hidden + key_value_width(model))
    feed_forward = (3 if model.family == "llama" else 2) * model.hidden * model.ffn
    return attentions * attention + feed_forward


def multiply_adds(model):
    """Of the products of one sample's forward pass."""
    sums = sum(
        tokens * layers * weights_of_block(model, attentions) for tokens, layers, _, attentions in streams_of(model)
    )
    if model.decoder:  # keys and values of the encoder's tokens for the second attention
        sums += (model.length - model.decoder) * model.layers * 2 * model.hidden * key_value_width(model)
    if model.family == "bert":
        return sums + LABELS * model.length * model.hidden * (VOCABULARY + model.hidden)
    return sums + (model.decoder or model.length) * model.hidden * VOCABULARY


def parameters(model):
    blocks = sum(layers * weights_of_block(model, attentions) for _, layers, _, attentions in streams_of(model))
    tables = 2 if model.family == "llama" else 1
    return blocks + tables * model.hidden * VOCABULARY


def bytes_of(model, batch):
    """By component, for a step of so many samples."""
    scored = (model.decoder or model.length) * (LABELS if model.family == "bert" else 1)
    moved = {"loss": batch * scored * VOCABULARY * 4, "norm of gradients, clipping, AdamW": parameters(model) * 30}
    norms = joined = sums = swiglu = 0
    for tokens, layers, parts, attentions in streams_of(model):
        values = batch * tokens * layers
        sums_in_products = layers and model.family == "gpt"
        norms += values * model.hidden * (8 * parts + 8 * parts - (4 if sums_in_products else 0))
        turned = 2 if model.family == "llama" else 1
        joined += values * attentions * 4 * turned * (model.hidden + 2 * key_value_width(model))
        if model.family in ("gpt", "bert"):
            sums += values * 2 * (2 * model.hidden + model.ffn)
        if model.family == "llama":
            swiglu += values * 18 * model.ffn
    moved |= {"norms": norms, "queries, keys and values joined or split": joined}
    moved |= {"sums of bias gradients": sums, "activations": swiglu}
    return moved


def least_times(row):
    """Milliseconds by component, named as components.py names them."""
    name, batch = row.split("/")
    model = MODELS[name]
    products = 6 * multiply_adds(model) * int(batch) / OPERATIONS
    times = {"products": products} | {
        component: moved / BYTES for component, moved in bytes_of(model, int(batch)).items() if moved
    }
    return {component: seconds * 1e3 for component, seconds in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", nargs="+")
    options = parser.parse_args()
    for row in options.row:
        if row.partition("/")[0] not in MODELS or not row.partition("/")[2].isdigit():
            parser.error(f"no such row: {row}; say one of {', '.join(MODELS)}, a slash and the batch")
    times = {row: least_times(row) for row in options.row}
    components = list(dict.fromkeys(component for by_component in times.values() for component in by_component))
    print("| least ms of a step | " + " | ".join(times) + " |")
    print("|---|" + "---:|" * len(times))
    for component in components:
        cells = (f"{times[row][component]:.1f}" if component in times[row] else "–" for row in times)
        print(f"| {component} | " + " | ".join(cells) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
