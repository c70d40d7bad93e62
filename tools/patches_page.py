"""Writes the list of `outplace debug patches` into docs/patches.md and its translation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

COMMAND = "outplace debug patches"
DOCS = Path(__file__).resolve().parents[1] / "docs"
BLOCK = re.compile(rf"(^```console\n\$ {COMMAND}\n).*?(^```$)", re.DOTALL | re.MULTILINE)


def main() -> None:
    """Lists the rows for a terminal of the width that the tests of docs have."""
    words = [sys.executable, "-m", *COMMAND.split()]
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    for page in (DOCS / "patches.md", DOCS / "ja" / "patches.md"):
        text = page.read_text("utf-8")
        page.write_text(BLOCK.sub(lambda block: f"{block[1]}{done.stdout.rstrip()}\n{block[2]}", text), "utf-8")


if __name__ == "__main__":
    main()
