"""table.py RESULTS.jsonl: Markdown tables of run.sh's lines; several rounds are joined by their median."""
import collections
import json
import statistics
import sys


def joined(rows):
    good = [row for row in rows if "value" in row]
    if not good:
        return dict(error=rows[-1]["error"][-160:].replace("|", "/"))
    return {**good[-1], "value": statistics.median(row["value"] for row in good), "best": max(row["best"] for row in good),
            "worst": min(row["worst"] for row in good), "others": max(row["others_cores"] for row in good),
            "peak": max(max(row["peak_rss_mb"]) for row in good)}


def print_table(title, heads, lines):
    print(f"\n## {title}\n\n| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for line in lines:
        print("| " + " | ".join(line) + " |")


def training(case, done):
    peers = [row["value"] for peer, row in done.items() if peer != "cairn" and "value" in row]
    lines = []
    for peer, row in done.items():
        if "error" in row:
            lines.append((peer, "failed", row["error"], "", "", ""))
            continue
        ratio = f"{row['value'] / max(peers):.2f} x" if peer == "cairn" and peers else ""
        lines.append((peer, f"{row['value']:.4g}", f"{row['best']:.4g} … {row['worst']:.4g}", ratio, f"{row['peak']} MB", f"{row['others']}"))
    print_table(f"A step of {case}", ("who", "tokens/s", "best … worst", "of the best peer", "peak memory", "others"), lines)


def products(case, done):
    for row in done.values():
        if "error" in row:
            print(f"\nproducts, {case}: failed: {row['error']}")
            continue
        print_table(f"Products of matrices, {case}: {row['value']:.2f} x libtorch's in the mean",
                    ("shape", "Cairn, GFLOP/s", "libtorch", "ratio"),
                    [(each["shape"], f"{each['cairn']:.0f}", f"{each['libtorch']:.0f}", f"{each['cairn'] / each['libtorch']:.2f}")
                     for each in row["gflops"]])


def parallel(case, done):
    for row in done.values():
        if "error" in row:
            print(f"\n{case}: failed: {row['error']}")
            continue
        print_table(f"Two ranks, {case}", ("tokens/s", "of what messages allow", "step", "messages alone", "one rank alone", "sent"),
                    [(f"{row['tokens_per_s']:.4g}", f"{row['value']:.2f} ({row['worst']:.2f} … {row['best']:.2f})", f"{row['shared_ms']:.0f} ms",
                      f"{row['messages_ms']:.1f} ms", f"{row['alone_ms']:.0f} ms", f"{row['messages']} messages, {row['megabytes']:.1f} MB")])


TABLES = {"train": training, "product": products, "parallel": parallel}


def main(path):
    cases = collections.defaultdict(lambda: collections.defaultdict(list))
    with open(path) as lines:
        for line in lines:
            row = json.loads(line)
            cases[row["group"], row["case"]][row["peer"]].append(row)
    for (group, case), peers in cases.items():
        TABLES[group](case, {peer: joined(rows) for peer, rows in peers.items()})


main(*sys.argv[1:])
