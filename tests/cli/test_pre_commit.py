"""The hooks of `.pre-commit-hooks.yaml`, run by pre-commit itself from a repository made of this tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUG = """\
import torch

w = torch.ones(3, requires_grad=True)
y = w.exp()
y += 1
y.sum().backward()
"""
CONFIGURATION = """\
repos:
  - repo: {repository}
    rev: {revision}
    hooks:
      - id: outplace
      - id: outplace-fix
"""


def git(folder, *words):
    who = ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def index_can_be_reached(folder):
    """Asks for a small package that the hook needs in any case."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, "click"]
    return subprocess.run(command, capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A repository with a bug, set up to use the hooks of this tree."""
    tree = tmp_path_factory.mktemp("outplace")
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".pre-commit-hooks.yaml"):
        shutil.copy(ROOT / name, tree)
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__"))
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "All")
    folder = tmp_path_factory.mktemp("project")
    git(folder, "init", "-q")
    revision = git(tree, "rev-parse", "HEAD")
    (folder / ".pre-commit-config.yaml").write_text(CONFIGURATION.format(repository=tree, revision=revision))
    (folder / "bug.py").write_text(BUG)
    (folder / "fine.py").write_text(BUG.replace("y += 1", "y = y + 1"))
    (folder / "notes.txt").write_text(BUG)
    (folder / "pyproject.toml").write_text('[tool.outplace]\nextend-exclude = ["third_party/"]\n')
    (folder / "third_party").mkdir()
    (folder / "third_party" / "theirs.py").write_text(BUG)
    git(folder, "add", "-A")
    return folder


@pytest.fixture(scope="module")
def run(project, tmp_path_factory):
    home = str(tmp_path_factory.mktemp("home"))
    environment = {**os.environ, "PRE_COMMIT_HOME": home, "PRE_COMMIT_COLOR": "never"}

    def run(*words):
        command = [sys.executable, "-m", "pre_commit", *words]
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
        if done.returncode == 3 and not index_can_be_reached(home):  # pre-commit's code for what it could not do
            pytest.skip("pre-commit cannot install the hook: no package index can be reached")
        return done

    return run


def test_the_hooks_check_and_fix(project, run):
    done = run("run", "outplace", "--all-files")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "bug.py:5:1" in done.stdout
    assert "Found 1 error in 1 file." in done.stdout  # neither fine.py, notes.txt nor theirs.py
    done = run("run", "outplace-fix", "--all-files")
    assert done.returncode == 1  # pre-commit's way: a hook that changes files has failed
    assert "files were modified by this hook" in done.stdout
    assert (project / "bug.py").read_text() == (project / "fine.py").read_text()
    for untouched in ("notes.txt", "third_party/theirs.py"):
        assert (project / untouched).read_text() == BUG
    done = run("run", "--all-files")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("Passed") == 2


def test_the_manifest_is_valid(run):
    done = run("validate-manifest", str(ROOT / ".pre-commit-hooks.yaml"))
    assert (done.returncode, done.stdout) == (0, "")
