"""Functions that are loaded without marks get them while they are watched; what is certain of each case is checked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from outplace.runtime.record import native
from side_by_side import plain

pytest.importorskip("torch")

PROGRAM = Path(__file__).parents[1] / "programs" / "loaded_code.py"
CASES = re.findall(r"^def case_(\w+)\(", PROGRAM.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def ending(tmp_path_factory):
    if not hasattr(native.compiled, "switch_tags"):
        pytest.skip("the compiled module is missing or old: `make run` makes it")
    return plain(tmp_path_factory.mktemp("loaded"), str(PROGRAM))


@pytest.mark.parametrize("case", CASES)
def test_while_it_is_watched(case, ending):
    assert f"case_{case} passed" in ending.stdout.decode().splitlines(), ending.stderr
