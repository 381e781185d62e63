#!/usr/bin/env python3
"""Draws what a terminal showed as an SVG picture.

    tmux capture-pane -e -p | tools/terminal_svg.py > picture.svg

Reads text with colour codes (SGR: bold, dim, the eight colours and their bright
ones), as `tmux capture-pane -e` writes it.
"""
import re
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT, MARGIN = 8.4, 18, 16
COLOURS = ["#4b5263", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#dcdfe4"]
BRIGHT = ["#7f848e"] + COLOURS[1:]


def spans(line):
    """(text, colour, bold, dim) for each stretch of the line."""
    colour, bold, dim = None, False, False
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        code = re.fullmatch(r"\x1b\[([0-9;]*)m", part)
        if not code:
            if part:
                yield part, colour, bold, dim
            continue
        for number in [int(n or 0) for n in code.group(1).split(";")]:
            if number == 0:
                colour, bold, dim = None, False, False
            elif number == 1:
                bold = True
            elif number == 2:
                dim = True
            elif 30 <= number <= 37:
                colour = COLOURS[number - 30]
            elif number == 39:
                colour = None
            elif 90 <= number <= 97:
                colour = BRIGHT[number - 90]


def main():
    lines = [line.rstrip("\n") for line in sys.stdin]
    while lines and not lines[-1].strip():
        lines.pop()
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    width = max(map(len, plain)) * WIDTH + 2 * MARGIN
    height = len(lines) * HEIGHT + 2 * MARGIN
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#23272e"/>\n'
        '<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" fill="#dcdfe4">'
    )
    for row, line in enumerate(lines):
        column = 0
        for text, colour, bold, dim in spans(line):
            style = (f' fill="{colour}"' if colour else "") + (' font-weight="bold"' if bold else "")
            style += ' fill-opacity="0.6"' if dim else ""
            for run in re.finditer(r"\S+(?: \S+)*", text):  # some browsers drop further blanks
                print(
                    f'<text x="{MARGIN + (column + run.start()) * WIDTH:.1f}" y="{MARGIN + (row + 0.75) * HEIGHT:.1f}" '
                    f'textLength="{len(run[0]) * WIDTH:.1f}"{style}>{escape(run[0])}</text>'
                )
            column += len(text)
    print("</g>\n</svg>")


main()
