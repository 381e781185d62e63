"""Tokenizers and datasets from Python, held against what the real programs gave."""

import json
import os
import pickle
import tempfile
import unittest

import torch

import cairn

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden")


class Datasets(unittest.TestCase):
    def test_gpt_samples_are_megatrons(self):
        with open(os.path.join(GOLDEN, "gpt_dataset", "gpt.json"), encoding="utf-8") as file:
            cases = [case for case in json.load(file) if "splits" in case and not case["options"]]
        self.assertGreater(len(cases), 2)
        compared = 0
        with tempfile.TemporaryDirectory() as cache:
            for case in cases:
                names = ("train", "valid", "test")
                wanted_sizes = [
                    size if case["splits"].get(name) else 0 for name, size in zip(names, case["sizes"])
                ]
                parts = cairn.data.GPTDataset.splits(
                    os.path.join(GOLDEN, "gpt_dataset", case["dataset"]),
                    case["sequence_length"],
                    split=case["split"],
                    samples=wanted_sizes,
                    seed=case["random_seed"],
                    cache_path=cache,
                )
                for name, part in zip(names, parts):
                    wanted = case["splits"].get(name)
                    if wanted is None:
                        self.assertIsNone(part, (case["name"], name))
                        continue
                    self.assertEqual(len(part), wanted["len"])
                    for sample in wanted["samples"]:
                        got = part[sample["index"]]
                        for key in ("tokens", "labels", "loss_mask", "position_ids"):
                            self.assertEqual(got[key].tolist(), sample[key], (case["name"], name, sample["index"]))
                            compared += 1
        self.assertGreater(compared, 20)

    def test_sequences_of_files_in_a_loader_with_workers(self):
        dataset = cairn.data.IndexedDataset(os.path.join(GOLDEN, "gpt_dataset", "a"))
        loader = torch.utils.data.DataLoader(
            torch.utils.data.Subset(dataset, range(6)), batch_size=None, num_workers=2, multiprocessing_context="spawn"
        )
        loaded = list(loader)
        for index, tokens in enumerate(loaded):
            self.assertTrue(torch.equal(tokens, dataset[index]))
        self.assertTrue(torch.equal(dataset[-1], dataset[len(dataset) - 1]))
        self.assertEqual(sum(len(dataset[i]) for i in range(len(dataset))), dataset.tokens)
        with self.assertRaises(IndexError):
            dataset[len(dataset)]

    def test_a_file_that_is_not_there(self):
        with self.assertRaises(cairn.DataError) as caught:
            cairn.data.IndexedDataset("/nowhere/text_document")
        self.assertIsInstance(caught.exception, OSError)


class Tokenizers(unittest.TestCase):
    def test_encodes_and_decodes(self):
        tokenizer = cairn.Tokenizer(
            type="GPT2BPETokenizer",
            vocab_file=os.path.join(GOLDEN, "tokenizers", "train", "own3000-vocab.json"),
            merge_file=os.path.join(GOLDEN, "tokenizers", "train", "own3000-merges.txt"),
        )
        text = "A learning rate of 0.1, naïve \U0001f600."
        ids = tokenizer.encode(text)
        self.assertEqual(tokenizer.decode(ids), text)
        self.assertEqual(tokenizer(text), ids)
        self.assertEqual(len(tokenizer), 3000)
        self.assertEqual(tokenizer.find("<|endoftext|>"), tokenizer.special["end_of_document"])
        self.assertEqual(pickle.loads(pickle.dumps(tokenizer)).encode(text), ids)
        with self.assertRaises(cairn.DataError):
            tokenizer.decode([3000])


if __name__ == "__main__":
    unittest.main()
