"""Rounds of a repair whose runs are told, not run: errors that are mended one after the other, and what is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outplace.repair.drive.evidence import Evidence
from outplace.repair.drive.from_run import Repair

SWEEPS = """import torch


def sweeps(a, b, n):
    c, d = a.clone(), b.clone()
    for i in range(1, n):
        c[i] = c[i] * c[i - 1]
        d[i] = d[i] * d[i - 1]
    return c.sum() + d.sum()


sweeps(*torch.rand(2, 5, requires_grad=True), 5).backward()
"""
WRITES = {7: "c", 8: "d"}


def _site(path: Path, line: int) -> dict[str, Any]:
    text = path.read_text().splitlines()[line - 1]
    start = len(text) - len(text.lstrip())
    return {
        "file": str(path), "line": line, "end_line": line, "column": start, "end_column": len(text), "function": "",
        "text": text.strip(),
    }  # fmt: skip


def _diagnosis(path: Path, line: int, name: str, kind: str = "saved") -> dict[str, Any]:
    site = _site(path, line)
    saved = {"node": "MulBackward0", "saved_as": "self", "site": site}
    return {
        "kind": kind, "error": "", "cause": "", "tensor": {"name": name}, "saved_by": saved, "also_saved_by": [saved],
        "mutations": [{"site": site}], "optimizer_at": None, "raised_at": _site(path, 12), "made_at": None,
    }  # fmt: skip


class Told:
    """Stands for the runs of a program: a row is mended where its line reads nothing but copies of it."""

    def __init__(self, path: Path, silent: bool = False, gradient: float = 1.0) -> None:
        self.path, self.silent, self.gradient = path, silent, gradient

    def require_time(self) -> None:
        """There is enough."""

    def first(self) -> tuple[Evidence, Path]:
        return self.again({}, "")

    def again(self, texts: dict[str, str], about: str, reference: bool = False) -> tuple[Evidence, Path]:
        lines = texts.get(str(self.path), self.path.read_text()).splitlines()
        stale = [line for line, name in WRITES.items() if lines[line - 1].count(f"{name}[i - 1].clone()") == 0]
        found = [_diagnosis(self.path, line, WRITES[line]) for line in ([] if reference else stale)]
        if self.silent:
            found = [one for one in found if one["mutations"][0]["site"]["line"] == 7]
            found.append(_diagnosis(self.path, 12, "a", "silent-other"))
        evidence = Evidence(1 if stale and not reference and found[0]["kind"] == "saved" else 0, found)
        evidence.roots, evidence.draws, evidence.files = [[[1.0, 1.0]]], [0], [str(self.path)]
        # What a copy of one of the two has changed, only the reference of the next round shows.
        grad = 1.0 if not texts or not reference else self.gradient
        leaf = {"leaf": [1.0, 1.0, "5"], "grad": [grad, grad]}
        evidence.gradients = {} if evidence.code else {0: {"gradients": [leaf], "returned": []}}
        return evidence, Path("output")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(SWEEPS)
    return path


def test_errors_are_mended_one_after_the_other(program: Path) -> None:
    outcome = Repair(Told(program)).run()  # type: ignore[arg-type]
    text = outcome.texts[str(program)]
    assert "c[i - 1].clone()" in text and "d[i - 1].clone()" in text
    assert not outcome.trouble and not outcome.left
    assert [proof.gradient.split()[0] for proof in outcome.proofs] == ["compared", "equal"]


def test_not_where_the_next_reference_has_other_gradients(program: Path) -> None:
    outcome = Repair(Told(program, gradient=2.0)).run()  # type: ignore[arg-type]
    assert not outcome.texts and outcome.trouble


def test_a_silent_bug_that_is_left_keeps_no_error_unmended(program: Path) -> None:
    outcome = Repair(Told(program, silent=True)).run()  # type: ignore[arg-type]
    assert "c[i - 1].clone()" in outcome.texts[str(program)]
    assert outcome.left.startswith("the silent bugs at line 12: ")
