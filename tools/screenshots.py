"""Makes the pictures of the terminal, of the HTML report and of a notebook that README and docs show, from real runs.

python tools/screenshots.py [FOLDER]        (docs/images unless told otherwise; needs Chromium)
"""

from __future__ import annotations

import html
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from playwright.sync_api import Browser, sync_playwright
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME

from outplace.report import terminal
from outplace.report.json import read_diagnosis

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "captioner"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

CELLS = [
    "%load_ext outplace\nimport torch",
    """def attend(query, key, value):
    scores = torch.softmax(query @ key.T, dim=-1)
    scores[:, 0] = 0.0  # nobody looks at the padding
    return scores @ value""",
    """query, key, value = (torch.randn(6, 16, requires_grad=True) for _ in range(3))
attend(query, key, value).sum().backward()""",
]

NOTEBOOK = """<!doctype html><meta charset="utf-8"><style>
body {{ font: 14px/1.5 system-ui, sans-serif; margin: 0; padding: 24px 28px; background: #fff; }}
.cell {{ display: grid; grid-template-columns: 64px minmax(0, 1fr); margin-bottom: 12px; }}
.prompt {{ font: 12px/2.6 ui-monospace, monospace; color: #307fc1; }}
.code {{ font: 13px/1.5 ui-monospace, monospace; background: #f5f5f5; border: 1px solid #e0e0e0; padding: 7px 10px; }}
.code, .error {{ margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; }}
.error {{ font: 12.5px/1.45 ui-monospace, monospace; background: #fdeeee; padding: 7px 10px; }}
.output {{ grid-column: 2; margin-top: 6px; }}
</style>{}"""


def report(folder: Path) -> Path:
    """The reports of the bundled example, which fails: as a page, and beside it as data."""
    made = folder / "report.html"
    reports = ["--html", str(made), "--json", str(made.with_suffix(".json"))]
    command = [sys.executable, "-m", "outplace", "run", *reports, "train.py", "--steps", "3"]
    subprocess.run(command, cwd=EXAMPLE, capture_output=True, check=False)
    return made


def memory(folder: Path) -> Path:
    """The page of `outplace reclaim` for a small ResNet."""
    made = folder / "memory.html"
    command = [sys.executable, "-m", "outplace", "reclaim", "--html", str(made), "resnet.py"]
    subprocess.run(command, cwd=ROOT / "benchmarks" / "models" / "out_of_place", capture_output=True, check=True)
    return made


def draw_terminal(page: Path, target: Path) -> None:
    """What the same run shows in a terminal, as a drawing that loads nothing."""
    entries = json.loads(page.with_suffix(".json").read_text("utf-8"))["diagnoses"]
    message = entries[0]["error"].partition(" to find the operation")[0]
    os.chdir(EXAMPLE)  # where the files of the report are found
    console = Console(record=True, width=100, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print("[bold]$ outplace run train.py[/]\nTraceback (most recent call last): ...")
    console.print(f"RuntimeError: {message} ...\n", markup=False)
    terminal.render([read_diagnosis(entry) for entry in entries], console)
    own_fonts = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    own_fonts = own_fonts.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")
    console.save_svg(str(target), title="outplace run", theme=SVG_EXPORT_THEME, code_format=own_fonts, unique_id="run")
    print(target)


def notebook(folder: Path) -> Path:
    """A notebook run by a real kernel, laid out as notebooks are."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    NotebookClient(book, allow_errors=True, kernel_name="python3").execute()
    cells = []
    for cell in book.cells:
        code = f'<div class="prompt">[{cell.execution_count}]:</div><pre class="code">{html.escape(cell.source)}</pre>'
        shown = "".join(f'<div class="output">{_output(output)}</div>' for output in cell.outputs)
        cells.append(f'<div class="cell">{code}{shown}</div>')
    made = folder / "notebook.html"
    made.write_text(NOTEBOOK.format("".join(cells)), encoding="utf-8")
    return made


def _output(output: nbformat.NotebookNode) -> str:
    if output.output_type == "error":
        return f'<pre class="error">{html.escape(f"{output.ename}: {output.evalue}")}</pre>'
    if output.output_type == "stream":
        return f"<pre>{html.escape(output.text)}</pre>"
    text: str = output.data.get("text/html") or html.escape(output.data["text/plain"])
    return text


def shoot(
    browser: Browser, page: Path, target: Path, width: int, height: int | None, theme: str, scale: float = 1
) -> None:
    """One picture; without a height of the whole page."""
    context = browser.new_context(
        viewport={"width": width, "height": height or 800}, color_scheme=theme, device_scale_factor=scale
    )
    tab = context.new_page()
    tab.goto(page.as_uri())
    tab.screenshot(path=target, full_page=height is None)
    context.close()
    print(target)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs" / "images").resolve()
    if CHROMIUM is None:
        sys.exit("screenshots: no Chromium found (apt-get install chromium)")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        made, book = report(Path(name)), notebook(Path(name))
        draw_terminal(made, folder / "run.svg")
        shoot(browser, made, folder / "report.png", 1160, 860, "light", 1.5)
        shoot(browser, made, folder / "report-light.png", 1280, None, "light", 1.5)
        shoot(browser, made, folder / "report-dark.png", 1280, None, "dark")
        shoot(browser, made, folder / "report-phone.png", 380, 1500, "light", 1.5)
        shoot(browser, memory(Path(name)), folder / "reclaim.png", 1060, 830, "light", 1.5)
        shoot(browser, book, folder / "report-notebook.png", 1000, None, "light")
        browser.close()


if __name__ == "__main__":
    main()
