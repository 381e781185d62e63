"""table.py RESULTS.jsonl: the Markdown table of run.sh's lines; several rounds are joined by their median.

"cairn is" compares with Cairn's own row of that kind: preprocess_data.py with `cairn preprocess`, other tokenizers
with `cairn encode`, Cairn's rows with each other's two-thread row. Above 1: Cairn is faster."""
import collections
import json
import statistics
import sys

TITLES = {"tokenize": "GPT-2 BPE on the corpus of the peers", "tokenize-text": "GPT-2 BPE on more text",
          "train-tokenizer": "Training a byte-level BPE", "train-text": "Training a byte-level BPE", "gpt-index": "Building the GPT indices"}
SHOWN = ("output", "tokens", "bare_s", "bare_ordered_s", "samples_built", "first_call", "steady")


def yardstick(group, peer):
    if not group.startswith("tokenize"):
        return "cairn"
    return "cairn preprocess" if peer == "megatron" or "preprocess" in peer else "cairn encode"


def joined(rows):
    good = [row for row in rows if "value" in row]
    if not good:
        return None
    return dict(good[-1], value=statistics.median(row["value"] for row in good),
                low=min(min(row["best"], row["worst"]) for row in good), high=max(max(row["best"], row["worst"]) for row in good),
                others=max(row["others_cores"] for row in good), peak=max(max(row["peak_rss_mb"]) for row in good))


def speed(row):
    return 1 / row["value"] if row["unit"] == "s" else row["value"]


def main(path):
    cases = collections.defaultdict(lambda: collections.defaultdict(list))
    with open(path) as f:
        for row in map(json.loads, f):
            cases[row["group"], row["case"]][row["peer"]].append(row)
    print("| what | who | result | spread | peak memory | cairn is | other processes | notes |\n|---|---|---|---|---|---|---|---|")
    for (group, case), peers in cases.items():
        done = {peer: joined(rows) for peer, rows in peers.items()}
        for peer, row in done.items():
            what = f"{TITLES.get(group, group)}: {case}"
            if row is None:
                print(f"| {what} | {peer} | failed | | | | | {peers[peer][-1]['error'][-200:].replace('|', '/')} |")
                continue
            ours = done.get(yardstick(group, peer))
            ratio = f"{speed(ours) / speed(row):.2f} x" if ours and ours is not row else ""
            notes = ", ".join(f"{key} {row[key]}" for key in SHOWN if key in row)
            if "crc" in row and ours:
                notes += ", output " + ("equal" if row["crc"] == ours["crc"] else "DIFFERENT")
            print(f"| {what} | {peer} | {row['value']:.4g} {row['unit']} | {row['low']:.4g} to {row['high']:.4g} | {row['peak']} MB | "
                  f"{ratio} | {row['others']} cores | {notes} |")
        whole, alone = done.get("cairn preprocess"), done.get("cairn encode")
        if whole and alone:
            print(f"| {TITLES[group]}: {case} | preprocess beside encode alone | | | | {speed(whole) / speed(alone):.2f} x | | at least 0.8 wanted |")
        builder = done.get("cairn")
        if builder and "bare_s" in builder:
            print(f"| {TITLES[group]}: {case} | index beside the bare shuffles and one pass | | | | "
                  f"{builder['value'] / builder['bare_s']:.2f} x the time | | at most 1.3 wanted; {builder['value'] / builder['bare_ordered_s']:.2f} x "
                  "with the pass in the documents' order |")


main(sys.argv[1])
