#!/usr/bin/env python3
"""Writes tests/golden/generation/t5.json: what transformers makes of some texts with the tiny T5s of
tests/golden/models.

    pip install torch==2.11.0 transformers==4.57.1
    tools/golden/t5_generation.py
"""

import json
import pathlib

import torch
import transformers

golden = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"


def sources(generator):
    for length in (1, 3, 9, 17, 40):
        yield torch.randint(2, 512, (1, length), generator=generator)


def greedy(model, source, end):
    scores = model.generate(source, max_new_tokens=24, do_sample=False, eos_token_id=end,
                            return_dict_in_generate=True, output_logits=True)
    margins = [(row.topk(2).values[0, 0] - row.topk(2).values[0, 1]).item() for row in scores.logits]
    return {"source": source[0].tolist(), "end": end, "ids": scores.sequences[0, 1:].tolist(),
            "min_margin": min(margins)}


def beams(model, source, width, end):
    found = model.generate(source, max_new_tokens=8, do_sample=False, num_beams=width, eos_token_id=end,
                           num_return_sequences=width, return_dict_in_generate=True, output_scores=True)
    return {"source": source[0].tolist(), "num_beams": width, "end": end,
            "ids": found.sequences[:, 1:].tolist(), "scores": found.sequences_scores.tolist()}


def log_probabilities(model, source, generator):
    ids = torch.randint(2, 512, (1, 30), generator=generator)
    start = torch.full((1, 1), model.config.decoder_start_token_id)
    logits = model.double()(input_ids=source, decoder_input_ids=torch.cat([start, ids], 1)[:, :-1]).logits
    model.float()
    of_next = logits.log_softmax(-1).gather(2, ids.unsqueeze(2))[0, :, 0]
    return {"source": source[0].tolist(), "ids": ids[0].tolist(), "log_probs": of_next.tolist()}


result = {"transformers": transformers.__version__, "torch": torch.__version__}
with torch.no_grad():
    for name in ("t5_relu", "t5_gated_gelu"):
        model = transformers.T5ForConditionalGeneration.from_pretrained(golden / "models" / name).eval()
        generator = torch.Generator().manual_seed(5)
        rows = list(sources(generator))
        plain = [greedy(model, row, None) for row in rows]
        # An end that the texts come to.
        ends = [greedy(model, row, each["ids"][5]) for row, each in zip(rows, plain)]
        result[name] = {
            "greedy": plain + ends,
            "beams": [beams(model, row, width, end) for row, width, end in zip(
                rows, (2, 3, 4, 5, 4), (None, plain[1]["ids"][2], None, plain[3]["ids"][3], None))],
            "log_probs": [log_probabilities(model, row, generator) for row in rows],
        }
(golden / "generation" / "t5.json").write_text(json.dumps(result) + "\n")
