"""index_peer.py DOCUMENTS ROUNDS: Megatron-LM's own steps for the GPT indices, on the lengths that
index.cpp makes. Needs Megatron-LM in $PEERS_HOME/src with its helpers compiled (run.sh does that).

Only the steps are timed, not the writing of files; megatron.core is not imported as a whole, because
that would load all of PyTorch."""
import importlib.util
import glob
import json
import os
import statistics
import sys
import time
import zlib

import numpy

SEQUENCE_LENGTH, SEED = 1024, 1234


def helpers():
    folder = os.path.join(os.environ["PEERS_HOME"], "src/Megatron-LM/megatron/core/datasets")
    [path] = glob.glob(os.path.join(folder, "helpers_cpp*.so"))
    spec = importlib.util.spec_from_file_location("helpers_cpp", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_lengths(count):
    mixed = (numpy.arange(count, dtype=numpy.uint64) * 2654435761 & 0xFFFFFFFF) >> 8
    return (1 + mixed % 1000).astype(numpy.int32)


def build(lengths, cpp):
    """One epoch, as GPTDataset._build_document_sample_shuffle_indices has it."""
    documents = numpy.arange(len(lengths), dtype=numpy.int32)
    tokens = int(numpy.sum(lengths[documents]))
    random = numpy.random.RandomState(SEED)
    document_index = numpy.mgrid[0:1, 0:len(documents)][1]
    document_index[:] = documents
    document_index = document_index.reshape(-1).astype(numpy.int32)
    random.shuffle(document_index)
    sample_index = cpp.build_sample_idx_int32(lengths.copy(), document_index, SEQUENCE_LENGTH, 1, tokens, True, 1)
    assert sample_index.min() >= 0 and sample_index.max() <= max(len(document_index), lengths.max())
    shuffle_index = numpy.arange(sample_index.shape[0] - 1, dtype=numpy.uint32)
    random.shuffle(shuffle_index)
    return document_index, sample_index, shuffle_index


def main(count, rounds):
    cpp, lengths, seconds = helpers(), make_lengths(count), []
    for _ in range(rounds + 1):
        arrays = None
        start = time.perf_counter()
        arrays = build(lengths, cpp)
        seconds.append(time.perf_counter() - start)
    seconds = seconds[1:]  # the first is for warming up
    print(json.dumps({"value": statistics.median(seconds), "unit": "s", "best": min(seconds), "worst": max(seconds),
                      "samples": len(seconds), "samples_built": len(arrays[2]),
                      "crc": "-".join(f"{zlib.crc32(a.tobytes()):08x}" for a in arrays)}))


main(int(sys.argv[1]), int(sys.argv[2]))
