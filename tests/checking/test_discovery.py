from __future__ import annotations

import os
import subprocess

import pytest

from outplace.checking.discovery import Excluded, discover
from outplace.checking.outcome import Failure
from outplace.checking.patterns import Patterns
from outplace.errors import OutplaceError


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(*paths, **texts):
    for path in paths:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w") as stream:
            stream.write("\n")


def ignore(path, *lines):
    make(path)
    with open(path, "w") as stream:
        stream.write("\n".join(lines) + "\n")


def found(*arguments, excluded=None):
    files = discover(arguments or (".",), excluded or Excluded()).files
    assert all(os.path.isabs(file) for file in files)
    return [os.path.relpath(file) for file in files]


def test_folders_files_and_their_order():
    make("b.py", "a/z.py", "a/b/c.py", "a.py", "a/data.csv", "a/stub.pyi", "nb.ipynb")
    assert found() == ["a/b/c.py", "a/z.py", "a.py", "b.py", "nb.ipynb"]
    assert found("a", "b.py", "a/z.py", "./a") == ["a/b/c.py", "a/z.py", "b.py"]


def test_what_is_usually_left_out():
    make(".venv/x.py", "build/x.py", "pkg/node_modules/x.py", "pkg/__pycache__/x.py", "pkg/x.py", "builder/x.py")
    assert found() == ["builder/x.py", "pkg/x.py"]
    assert found(excluded=Excluded(names=frozenset())) == [
        ".venv/x.py",
        "build/x.py",
        "builder/x.py",
        "pkg/__pycache__/x.py",
        "pkg/node_modules/x.py",
        "pkg/x.py",
    ]


def test_what_is_named_itself_is_taken():
    make(".venv/lib/x.py", ".venv/lib/build/y.py", "notes.txt", "script")
    assert found(".venv/lib") == [".venv/lib/x.py"]
    assert found(".venv/lib/build/y.py", "script") == [".venv/lib/build/y.py", "script"]


def test_patterns():
    make("a/gen.py", "a/ok.py", "b/gen.py", "tests/data/x.py", "tests/x.py")

    def without(*lines):
        return found(excluded=Excluded(patterns=(Patterns.of(os.getcwd(), lines, "--exclude"),)))

    assert without("gen.py") == ["a/ok.py", "tests/data/x.py", "tests/x.py"]
    assert without("a/gen.py", "./tests/data") == ["a/ok.py", "b/gen.py", "tests/x.py"]
    assert without("tests/", "*/gen.py", "!b/gen.py") == ["a/ok.py", "b/gen.py"]
    assert without(os.path.join(os.getcwd(), "tests")) == ["a/gen.py", "a/ok.py", "b/gen.py"]
    with pytest.raises(OutplaceError, match=r"--exclude: '\[z-a\]' is not a valid file pattern"):
        without("[z-a]")


def test_globs_that_no_shell_has_expanded():
    make("a/x.py", "a/b/y.py", "c/x.py", "c/x.txt")
    assert found("*/x.*") == ["a/x.py", "c/x.py"]
    assert found("a/**/*.py") == ["a/b/y.py", "a/x.py"]
    assert found("**") == ["a/b/y.py", "a/x.py", "c/x.py"]
    make("[odd].py")
    assert found("[odd].py") == ["[odd].py"]
    with pytest.raises(OutplaceError, match="no Python file matches"):
        found("*.pyx")


def test_missing_paths():
    with pytest.raises(OutplaceError, match=r"gone\.py: no such file or folder") as caught:
        found(".", "gone.py")
    assert caught.value.exit_code == 2


def test_folders_without_python():
    os.mkdir("empty")
    assert discover(["empty"], Excluded()).notes == ["no Python files found in empty"]


def test_circles_of_links():
    make("a/x.py")
    os.symlink("..", "a/up")
    os.symlink("loop.py", "a/loop.py")
    os.symlink("x.py", "a/link.py")
    assert found() == ["a/link.py", "a/x.py"]
    assert found("a/**/*.py") == ["a/link.py", "a/x.py"]
    assert found("**/*.py") == ["a/link.py", "a/x.py"]


def test_closed_folders(monkeypatch):
    make("a/x.py", "b/y.py")
    scandir = os.scandir

    def closed(folder):
        if os.path.basename(folder) == "a":
            raise PermissionError(13, "Permission denied", folder)
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", closed)  # nothing is closed to root
    result = discover(["."], Excluded())
    assert result.files == [os.path.abspath("b/y.py")]
    assert result.failures == [Failure(os.path.abspath("a"), "cannot be read: permission denied")]
    assert discover(["a"], Excluded()).notes == []


class TestGitignore:
    def test_nested_files_and_negation(self):
        make(
            "x.py", "gen/a.py", "gen/keep.py", "pkg/x.py", "pkg/gen.py", "pkg/sub/gen.py", "pkg/sub/own.py", "out/a.py"
        )
        ignore(".gitignore", "# what we make", "gen.py", "gen/*", "!gen/keep.py", "/out/", "own.py")
        ignore("pkg/sub/.gitignore", "!own.py")
        assert found() == ["gen/keep.py", "pkg/sub/own.py", "pkg/x.py", "x.py"]
        assert "out/a.py" in found(excluded=Excluded(gitignore=False))

    def test_the_files_above_count_within_the_repository(self):
        ignore(".gitignore", "outer.py")
        make("repo/sub/outer.py", "repo/sub/inner.py", "repo/sub/secret.py", "repo/sub/deep/root.py", "repo/root.py")
        os.mkdir("repo/.git")
        ignore("repo/.gitignore", "inner.py", "/root.py")
        ignore("repo/.git/info/exclude", "secret.py")
        assert found("repo/sub") == ["repo/sub/deep/root.py", "repo/sub/outer.py"]
        assert found("repo") == ["repo/sub/deep/root.py", "repo/sub/outer.py"]

    def test_an_ignored_folder_that_is_named_is_checked(self):
        os.mkdir(".git")
        ignore(".gitignore", "scratch/", "*_gen.py")
        make("scratch/x.py", "scratch/x_gen.py", "scratch/deep/scratch/y.py")
        assert found() == []
        assert found("scratch") == ["scratch/deep/scratch/y.py", "scratch/x.py"]

    def test_lines_that_are_no_patterns(self):
        make("a.py", "b.py")
        ignore(".gitignore", "!", "[z-a]", "b.py")
        assert found() == ["a.py"]

    def test_as_git_itself_would(self):
        lines = ["*.py", "!keep*.py", "dir/", "!dir/", "dir/a.py", "a/**/b.py", "/top.py", r"\#odd.py", "sp ace.py"]
        make(
            *(["keep1.py", "top.py", "dir/a.py", "dir/keep2.py", "a/b.py", "a/c/d/b.py", "other/top.py"]),
            "#odd.py",
            "sp ace.py",
        )
        ignore(".gitignore", *lines)
        ignore("other/.gitignore", "!*.py")
        subprocess.run(["git", "init", "-q"], check=True)
        listed = subprocess.run(
            ["git", "ls-files", "-coz", "--exclude-standard"], check=True, capture_output=True, text=True
        ).stdout.split("\0")
        assert sorted(found()) == sorted(file for file in listed if file.endswith(".py"))
