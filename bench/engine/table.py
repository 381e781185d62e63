"""table.py RESULTS.jsonl: Markdown tables of run.sh's lines; several rounds are joined by their median."""
import collections
import json
import statistics
import sys


def joined(rows):
    good = [row for row in rows if "value" in row]
    if not good:
        return dict(error=rows[-1]["error"][-160:].replace("|", "/"))
    measured = [key for key in good[0] if key in ("value", "memory", "cores") or key.endswith("_us")]
    return {**good[-1], **{key: statistics.median(row[key] for row in good) for key in measured},
            "others_cores": max(row["others_cores"] for row in good), "peak": max(max(row["peak_rss_mb"]) for row in good)}


def print_table(title, heads, lines):
    print(f"\n## {title}\n\n| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for line in lines:
        print("| " + " | ".join(line) + " |")


def adam(case, done):
    lines = []
    fastest = max((row["value"] for peer, row in done.items() if "cairn" not in peer and "value" in row), default=None)
    for peer, row in done.items():
        if "error" in row:
            lines.append((peer, "failed", row["error"], "", "", "", ""))
            continue
        bounds = [f"{row['value'] / row[key]:.2f} of {row[key]:.1f}" if key in row else "" for key in ("memory", "cores")]
        lines.append((peer, f"{row['value']:.1f}", *bounds,
                      f"{row['value'] / fastest:.2f} x" if "cairn" in peer and fastest else "", f"{row['peak']} MB", f"{row['others_cores']}"))
    print_table(f"AdamW on 2^25 elements, {case}", ("who", "GB/s", "of the memory's", "of the cores' (root and quotient alone)", "of the best peer", "peak memory", "others"), lines)


def training(case, one, two):
    """`one`, `two`: measurements by who, on one process and on two ranks."""
    def milliseconds(row):
        return row["ranks"] * {"small": 1024, "small-comm": 32}[case] / row["value"] * 1e3

    def adds(row, alone):
        return f"{milliseconds(row) - milliseconds(alone):.1f}" if "value" in alone else ""

    # Two processes that know nothing of each other: each has counted its own tokens.
    one = {peer: dict(row, value=row["ranks"] * row["value"]) if "value" in row else row for peer, row in one.items()}
    lines = []
    for peer, row in (*one.items(), *two.items()):
        if "error" in row:
            lines.append((peer, "failed", row["error"], "", "", "", "", ""))
            continue
        own = ("cairn" if "cairn" in peer else "torch") + " step"
        bases = (one.get(own, {}), one.get(own + ", two at once", {})) if peer in two else ({}, {})
        lines.append((peer, "1 + 1" if "two at once" in peer else str(row["ranks"]), f"{row['value']:.0f}", f"{milliseconds(row):.1f}",
                      *(adds(row, base) for base in bases), f"{row['peak']} MB", f"{row['others_cores']}"))
    print_table(f"A 12M-parameter GPT, {case}", ("who", "ranks", "tokens/s", "ms a step", "adds to one process, ms",
                "adds to two that do not talk, ms", "peak memory of a rank", "others"), lines)


def overhead(case, done):
    lines = [(peer, *((f"{row['value']:.2f}", f"{row['operator_us']:.2f}", f"{row['operator_with_parameter_us']:.2f}",
                       f"{row['bare_us']:.2f}", f"{row['bare_operator_us']:.2f}", f"{row['peak']} MB", f"{row['others_cores']}")
                      if "error" not in row else ("failed", row["error"], "", "", "", "", ""))) for peer, row in done.items()]
    print_table(f"Host overhead, {case}: microseconds", ("who", "a parameter, a step", "an operator", "an operator on a parameter",
                "for scale: forward and backward without the engine, a parameter", "an operator", "peak memory", "others"), lines)


def main(path):
    groups = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(list)))
    with open(path) as f:
        for row in map(json.loads, f):
            groups[row["group"]][row["case"]][row["peer"]].append(row)
    done = {group: {case: {peer: joined(rows) for peer, rows in peers.items()} for case, peers in cases.items()}
            for group, cases in groups.items()}
    for case, peers in done.get("adam", {}).items():
        adam(case, peers)
    for case in dict.fromkeys((*done.get("train1", {}), *done.get("train2", {}))):
        training(case, done.get("train1", {}).get(case, {}), done.get("train2", {}).get(case, {}))
    for case, peers in done.get("overhead", {}).items():
        overhead(case, peers)


main(sys.argv[1])
