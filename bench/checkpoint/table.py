"""table.py RESULTS.jsonl: Markdown tables of run.sh's lines; several rounds are joined by their median."""
import collections
import json
import statistics
import sys

TITLES = {"save": "Save 1.5 GB to a new file", "load": "Load 1.5 GB from the page cache into tensors that exist",
          "load-cold": "The same from the disk"}


def joined(rows):
    good = [row for row in rows if "value" in row]
    if not good:
        return dict(error=rows[-1]["error"][-160:].replace("|", "/"))
    return dict(value=statistics.median(row["value"] for row in good), best=max(row["best"] for row in good),
                worst=min(row["worst"] for row in good), others=max(row["others_cores"] for row in good),
                peak=max(max(row["peak_rss_mb"]) for row in good))


def spread(rows):
    """A row whose program tried several ways becomes a row for each of them."""
    ways = collections.defaultdict(list)
    for row in rows:
        for way, value in row["ways"].items():
            ways[way].append(value)
    shared = joined(rows)
    return {way: dict(shared, value=statistics.median(values), best=None) for way, values in ways.items()}


def print_step(peers):
    print("\n## A save beside the training\n\n| who | step | the call | a step beside it | the training loses | best … worst | others |\n"
          "|---|---|---|---|---|---|---|")
    for peer, rows in peers.items():
        row = joined(rows)
        if "error" in row:
            print(f"| {peer} | failed | {row['error']} | | | | |")
            continue
        step, call, beside = (statistics.median(row[key] for row in rows if key in row) for key in ("step_s", "call_s", "beside_s"))
        print(f"| {peer} | {step:.3f} s | {1000 * call:.0f} ms | {beside:.3f} s | {row['value']:.1f} % of a step | "
              f"{min(r['best'] for r in rows if 'best' in r):.1f} … {max(r['worst'] for r in rows if 'worst' in r):.1f} | {row['others']} |")


def print_case(case, peers):
    done = {}
    for peer, rows in peers.items():
        done.update(spread(rows) if all("ways" in row for row in rows) else {peer: joined(rows)})
    values = {peer: row["value"] for peer, row in done.items() if "value" in row}
    # Nobody saves faster than the disk takes bytes, or loads faster than one mapped file is copied.
    ceiling = max((value for peer, value in values.items() if peer.startswith("disk") or peer == "mmap and memcpy"), default=None)
    heads = ("who", "GB/s", "best … worst", "of the best of the disk" if case == "save" else "of mmap and memcpy",
             "of torch", "of safetensors", "peak memory", "others")
    print(f"\n## {TITLES.get(case, case)}\n\n| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for peer, row in done.items():
        if "error" in row:
            print(f"| {peer} | failed | {row['error']} | | | | | |")
            continue
        ratios = [f"{row['value'] / base:.2f}" if base else "" for base in (ceiling, values.get("torch"), values.get("safetensors"))]
        extremes = f"{row['best']:.2f} … {row['worst']:.2f}" if row["best"] else ""
        print("| " + " | ".join((peer, f"{row['value']:.2f}", extremes, *ratios, f"{row['peak']} MB", f"{row['others']}")) + " |")


def main(path):
    cases = collections.defaultdict(lambda: collections.defaultdict(list))
    with open(path) as f:
        for row in map(json.loads, f):
            cases[row["case"]][row["peer"]].append(row)
    for case, peers in cases.items():
        if case == "step":
            print_step(peers)
        else:
            print_case(case, peers)


main(sys.argv[1])
