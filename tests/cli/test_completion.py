"""`outplace completion`: what a shell completes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from side_by_side import OUTPLACE


def completed(*words):
    """What the shell is told about the last word."""
    env = {"COMP_WORDS": " ".join(["outplace", *words]), "COMP_CWORD": str(len(words))}
    env |= {"_OUTPLACE_COMPLETE": "bash_complete"}
    done = subprocess.run([OUTPLACE], env={**os.environ, **env}, capture_output=True, text=True, timeout=60)
    return [line.split(",", 1)[1] if line.startswith("plain") else line for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["che"], ["check"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["check", "--output-format", "j"], ["json", "junit"]),
        (["check", "mod"], ["file,mod"]),
        (["run", "--gu"], ["--guard"]),
        (["run", "--html", "re"], ["file,re"]),
        (["run", "tr"], ["file,tr"]),
        (["run", "train.py", "--gu"], ["file,--gu"]),  # an option of the program
    ],
)
def test_words(words, expected):
    assert completed(*words) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_code_is_for_the_shell(shell, tmp_path):
    done = subprocess.run([OUTPLACE, "completion", shell], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"_OUTPLACE_COMPLETE={shell}_complete" in done.stdout
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell} that could read it")
    (tmp_path / "code").write_text(done.stdout)
    subprocess.run([shell, "-n", str(tmp_path / "code")], check=True, timeout=60)


def test_bash_completes_with_it():
    script = (
        'eval "$(outplace completion bash)"; complete -p outplace\n'
        "COMP_WORDS=(outplace expl); COMP_CWORD=1; _outplace_completion outplace; echo ${COMPREPLY[@]}\n"
    )
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", script], env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines()[1:] == ["explain"], done.stderr
