"""Fetches the official JSON schema of SARIF 2.1.0 for the tests: two packages of Microsoft's bring it along.

python tools/sarif_schema.py FILE        (nothing is done where the file is there already)
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

# The first has the newer text of it (2.1.0-rtm.5); the second, at rtm.4, needs no npm.
SOURCES = (
    ["npm", "pack", "--silent", "@microsoft/jest-sarif@1.0.0-beta.0"],
    [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "sarif-om==1.0.4"],
)


def fetch(command: list[str]) -> bytes | None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=True)
        except (OSError, subprocess.SubprocessError):  # there is no npm, there is no network
            return None
        for archive in Path(folder).glob("*gz"):
            with tarfile.open(archive) as files:
                for member in files:
                    if Path(member.name).match("sarif-2.1.0-rtm.*.json"):
                        return files.extractfile(member).read()
    return None


def main() -> None:
    target = Path(sys.argv[1])
    if target.exists():
        return
    schema = next(filter(None, map(fetch, SOURCES)), None)
    if schema is None:
        print("The schema of SARIF cannot be fetched here: tests/report/test_sarif_schema.py is left out.")
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".unfinished")
    unfinished.write_bytes(schema)
    unfinished.replace(target)


if __name__ == "__main__":
    main()
