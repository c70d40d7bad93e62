"""`make quick` runs the tests that belong to what has changed."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "quick_tests.py"
spec = importlib.util.spec_from_file_location("quick_tests", TOOL)
quick = importlib.util.module_from_spec(spec)
spec.loader.exec_module(quick)


def test_a_module_has_the_tests_beside_it_and_those_that_import_it():
    found = quick.tests_of(["src/outplace/checking/noqa.py"])
    assert {"tests/checking/test_noqa.py", "tests/test_house.py"} <= set(found)
    assert "tests/cli/test_check.py" in quick.tests_of(["src/outplace/cli/check.py"])
    assert "tests/report/test_findings.py" in quick.tests_of(["src/outplace/report/findings/summary.py"])


def test_a_test_file_counts_itself_and_other_files_count_nothing():
    files = ["tests/cli/test_fix.py", "README.md", "src/outplace/knowledge/op_table.json", "tests/gone/test_gone.py"]
    assert quick.tests_of(files) == ["tests/cli/test_fix.py", "tests/test_house.py"]


SLOW = "import time\n\n\ndef test_a():\n    time.sleep(0.3)\n    assert not {}\n\n\ndef test_b():\n    pass\n"


@pytest.mark.parametrize("fails", [False, True])
def test_a_time_that_is_over_is_no_failure(tmp_path, capfd, fails):
    (tmp_path / "test_slow.py").write_text(SLOW.format(fails))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull]
    assert bool(quick._without_the_rest([*command, "--session-timeout", "0.2", str(tmp_path)])) == fails
    assert ("not all of these tests have run" in capfd.readouterr().out) == (not fails)


def test_every_package_is_mirrored_by_a_folder_of_tests():
    """The rule of the tool: tests/X belongs to src/outplace/X."""
    source = TOOL.parents[1] / "src" / "outplace"
    packages = {path.name for path in source.iterdir() if (path / "__init__.py").exists()} - {"files"}
    assert packages <= {path.name for path in (TOOL.parents[1] / "tests").iterdir()}
