"""make_text.py OUT.jsonl MEGABYTES FOLDER…: so many MB of the text files below the folders, as {"text": …} documents of at most 8 KB.

Files are taken in the order of their names' hashes, at most 200 KB of each, and each document once: a mixture, and the
same folders give the same text."""
import hashlib
import json
import os
import sys

ENDINGS = (".txt", ".md", ".rst", ".py", ".pyi", ".h", ".hpp", ".c", ".cpp", ".cc", ".html", ".pod", ".pm", ".yaml")


def files(folders):
    paths = (os.path.join(at, name) for folder in folders for at, _, names in os.walk(folder) for name in names if name.endswith(ENDINGS))
    return sorted((path for path in paths if os.path.isfile(path) and not os.path.islink(path)),
                  key=lambda path: hashlib.sha1(path.encode()).digest())


def pieces(text, size=8000):
    lines, length = [], 0
    for line in text.splitlines(keepends=True):
        lines.append(line[:size])
        length += len(lines[-1])
        if length >= size:
            yield "".join(lines)
            lines, length = [], 0
    if lines:
        yield "".join(lines)


def main(out, megabytes, *folders):
    wanted, total, seen = float(megabytes) * 1e6, 0, set()
    with open(out + ".part", "w", encoding="utf-8") as f:
        for path in files(folders):
            with open(path, "rb") as source:
                text = source.read(200_000).decode("utf-8", errors="ignore")
            for piece in pieces(text):
                digest = hashlib.sha1(piece.encode()).digest()
                if digest not in seen and total < wanted:
                    seen.add(digest)
                    total += len(piece.encode())
                    f.write(json.dumps({"text": piece}, ensure_ascii=False) + "\n")
            if total >= wanted:
                break
    os.replace(out + ".part", out)
    print(f"{out}: {len(seen)} documents, {total / 1e6:.1f} MB of text", file=sys.stderr)
    if total < wanted:
        sys.exit(f"the folders hold only {total / 1e6:.1f} MB; name more of them")


main(*sys.argv[1:])
