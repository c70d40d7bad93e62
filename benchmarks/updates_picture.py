"""Draws the results of benchmarks/updates.py: one panel an update, one bar a route, as a multiple of a plain copy.

python benchmarks/updates_picture.py results/updates-cuda.json docs/images/updates-cuda.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

Record = dict[str, Any]

OURS, THEIRS, FLOOR = "#2a9d6f", "#9aa5b1", "#d1495b"
WIDTH, LABEL, ROW, GAP = 980, 150, 15, 34
HALF = (WIDTH - LABEL) / 2
STYLE = """
text { font: 11px system-ui, sans-serif; fill: #3b4252; }
.title { font-weight: 600; font-size: 12px; } .head { font-size: 15px; font-weight: 600; } .ours { font-weight: 600; }
.paper { fill: #ffffff; }
@media (prefers-color-scheme: dark) { text { fill: #d8dee9; } .paper { fill: #1b1f27; } }
"""


def panels(records: list[Record], size: str, dtype: str) -> dict[str, list[Record]]:
    """The records of one size and dtype by update, quickest forward first."""
    chosen = [r for r in records if r["size"] == size and r["dtype"] == dtype and r["route"] != "copy"]
    updates = dict.fromkeys(r["update"] for r in chosen)
    return {u: sorted((r for r in chosen if r["update"] == u), key=lambda r: r["forward_ratio"]) for u in updates}


def bar(x: float, y: float, ratio: float, most: float, ours: bool) -> str:
    scale = (HALF - 70) / most
    cut = ratio > most
    length = min(ratio, most) * scale
    label = f"{ratio:.2f}" + (" …" if cut else "")
    weight = ' class="ours"' if ours else ""
    return (
        f'<rect x="{x:.1f}" y="{y}" width="{length:.1f}" height="{ROW - 4}" rx="2" fill="{OURS if ours else THEIRS}"/>'
        f'<text x="{x + length + 5:.1f}" y="{y + ROW - 5}"{weight}>{label}</text>'
    )


def drawn(about: dict[str, str], records: list[Record], size: str, dtype: str) -> str:
    most = 5.0
    parts: list[str] = []
    y = 62
    for update, rows in panels(records, size, dtype).items():
        parts.append(f'<text x="12" y="{y}" class="title">{escape(update)}</text>')
        top = y + 6
        for row, record in enumerate(rows):
            ours = record["route"].startswith("at")
            line = top + row * ROW
            weight = ' class="ours"' if ours else ""
            parts.append(
                f'<text x="{LABEL - 8}" y="{line + ROW - 5}" text-anchor="end"{weight}>{record["route"]}</text>'
            )
            for half, key in enumerate(("forward_ratio", "backward_ratio")):
                parts.append(bar(LABEL + half * HALF, line, record[key], most, ours))
        bottom = top + len(rows) * ROW
        for half in range(2):
            x = LABEL + half * HALF + (HALF - 70) / most
            ends = f'x1="{x:.1f}" x2="{x:.1f}" y1="{top - 2}" y2="{bottom}"'
            parts.append(f'<line {ends} stroke="{FLOOR}" stroke-dasharray="3 2"/>')
        y = bottom + GAP - ROW
    where = f"{about['device']}, torch {about['torch']}, {size} elements of {dtype}"
    head = (
        f'<text x="12" y="22" class="head">Time of an update, in plain copies of x (dashed)</text>'
        f'<text x="{WIDTH - 12}" y="22" text-anchor="end">{escape(where)}</text>'
        f'<text x="{LABEL}" y="42">forward</text><text x="{LABEL + HALF}" y="42">backward</text>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" role="img">'
        f"<style>{STYLE}</style>"
        f'<rect class="paper" width="{WIDTH}" height="{y}"/>{head}{"".join(parts)}</svg>\n'
    )


def table(records: list[Record], size: str) -> str:
    """In Markdown: `at` and the quickest way by hand, forward and backward, and their memory."""
    lines = [
        "| update | dtype | `at` forward | best by hand | `at` backward | best by hand | memory, forward / backward |",
        "|---|---|---|---|---|---|---|",
    ]
    for dtype in dict.fromkeys(r["dtype"] for r in records):
        for update, rows in panels(records, size, dtype).items():
            ours = next(r for r in rows if r["route"] == "at")
            others = [r for r in rows if not r["route"].startswith("at")]
            cells = [f"`{update}`" if "," not in update else update, dtype]
            for key in ("forward_ratio", "backward_ratio"):
                best = min(others, key=lambda r: r[key])
                cells += [f"**{ours[key]:.2f}**", f"{best[key]:.2f} ({best['route']})"]
            cells.append(f"{ours['forward_memory']:.2f} / {ours['backward_memory']:.2f}")
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


WAYS = {"forward": "forward", "backward": "backward", "together": "both", "alone": "no gradients"}


def summary(records: list[Record]) -> str:
    """In Markdown: for each size the update that is slowest beside the best route by hand."""
    lines = [f"| elements | {' | '.join(WAYS.values())} |", "|---|" + "---|" * len(WAYS)]
    for size in dict.fromkeys(r["size"] for r in records):
        ours = [r for r in records if r["size"] == size and r["route"] == "at"]
        cells = []
        for way in WAYS:
            worst = max(ours, key=lambda r, way=way: float(r[f"{way}_beside"]))
            cells.append(f"{worst[f'{way}_beside']:.2f} ({worst['update']}, {worst['dtype']})")
        lines.append(f"| {size} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def beside(records: list[Record]) -> str:
    """In Markdown: every update beside the best route by hand, by the clock: forward, backward, both, no gradients."""
    sizes = list(dict.fromkeys(r["size"] for r in records))
    lines = [f"| update | dtype | {' | '.join(sizes)} |", "|---|---|" + "---|" * len(sizes)]
    for dtype in dict.fromkeys(r["dtype"] for r in records):
        for update in panels(records, sizes[0], dtype):
            cells = [f"`{update}`" if "," not in update else update, dtype]
            for size in sizes:
                ours = next(r for r in panels(records, size, dtype)[update] if r["route"] == "at")
                cells.append(" / ".join(f"{ours[f'{way}_beside']:.2f}" for way in WAYS))
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def draw(results: Path, target: Path, dtype: str = "float32") -> None:
    """Draws the largest size in the results, and writes the same as a table next to it, and one for all sizes."""
    data = json.loads(results.read_text())
    size = data["records"][-1]["size"]
    target.write_text(drawn(data["about"], data["records"], size, dtype))
    tables = (table(data["records"], size), summary(data["records"]), beside(data["records"]))
    target.with_suffix(".md").write_text("\n".join(tables))


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
