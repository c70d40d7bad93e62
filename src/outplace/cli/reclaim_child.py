"""The process in which `outplace reclaim` runs the program: `python -m outplace.cli.reclaim_child train.py`."""

from __future__ import annotations

import sys

from outplace.cli.main import main
from outplace.reclaim.observe import probe
from outplace.repair.drive.processes import end_with_parent, show_lines_at_once

if __name__ == "__main__":
    end_with_parent()
    show_lines_at_once()
    probe.start()
    sys.exit(main(["run", "--", *sys.argv[1:]]))
