"""Trainings in turn, repaired from a run: what the runs have shown, and what is left to a person."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAMS = Path(__file__).parents[2] / "cases" / "programs"


def run(folder: Path, name: str) -> tuple[int, str, str]:
    """The exit code of `outplace run --fix`, what it says, and the program it leaves."""
    program = folder / name
    program.write_text((PROGRAMS / name).read_text())
    command = [sys.executable, "-m", "outplace", "run", "--fix", name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    return done.returncode, " ".join(done.stderr.split()), program.read_text()


def test_fakes_that_methods_read_are_detached_and_every_step_stays_what_it_was(tmp_path):
    name = "cyclegan_methods_fake_attached.py"
    code, said, text = run(tmp_path, name)
    original = (PROGRAMS / name).read_text()
    assert text == original.replace("self.b, self.fake_b)", "self.b, self.fake_b.detach())").replace(
        "self.a, self.fake_a)", "self.a, self.fake_a.detach())"
    )
    assert code == 0
    # 2 rounds of 3 backwards and 2 steps
    assert "loss: unchanged, in 6 backwards" in said
    assert "each step uses those of the original program with copies of its saved tensors, in 4 steps" in said


def test_data_of_a_rollout_is_for_a_person_to_cut_off(tmp_path):
    name = "ppo_rollout_values_attached.py"
    code, said, text = run(tmp_path, name)
    assert text == (PROGRAMS / name).read_text()
    assert code == 1
    assert "the step in line 37 of one round comes before the backward in line 36 of the next" in said
    assert "`old`, `values`, `advantages`; choose: detach" in said
