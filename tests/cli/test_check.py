"""`outplace check` as a user meets it: real files, the real analysis, the exit code and both streams."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from outplace.checking.config import FORMATS
from outplace.cli.check import FOR_MACHINES
from outplace.cli.main import cli

BUG = """\
import torch


def f(x, w):
    y = torch.sigmoid(x @ w)
    y += x{comment}
    return y.sum()


w = torch.zeros(3, 3, requires_grad=True)
f(torch.ones(3), w).backward()
"""
CLEAN = BUG.replace("y += x", "y = y + x")
SYNTAX = "import torch\ndef f(:\n    y.add_(1)\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name, text=None, comment=""):
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((BUG if text is None else text).replace("{comment}", comment))


def check(*args, code=None, stdin=None):
    result = CliRunner().invoke(cli, ["check", *args], input=stdin)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    if code is not None:
        assert result.exit_code == code, result.output
    return result


def concise(*args, code=1, **more):
    return check(*args, "--output-format", "concise", "--quiet", code=code, **more).stdout.splitlines()


def test_a_file_that_takes_too_long_is_noted_in_every_format(monkeypatch):
    """The exit code is that of what was found."""
    write("clean.py", CLEAN + "y = w.detach() + 1\n" * 500)
    monkeypatch.setattr("outplace.source.project.MOST_SECONDS", -1.0)
    said = "takes too long to analyse; the rest of the file was left out"
    shown = check("clean.py", "--no-cache", "-j1", code=0)
    assert shown.stderr == f"outplace: clean.py: {said}\n"
    assert shown.stdout == "1 file not checked to the end.\n"
    (note,) = json.loads(check("clean.py", "--no-cache", "-j1", "--output-format", "json", code=0).stdout)
    assert (note["file"], note["severity"], note["message"]) == ("clean.py", "note", said)
    log = json.loads(check("clean.py", "--no-cache", "-j1", "--output-format", "sarif", code=0).stdout)
    (note,) = log["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert (note["level"], note["message"]["text"]) == ("note", f"clean.py: {said}")
    assert log["runs"][0]["results"] == []


def test_a_note_survives_the_cache(monkeypatch):
    write("clean.py", CLEAN + "y = w.detach() + 1\n" * 500)
    monkeypatch.setattr("outplace.source.project.MOST_SECONDS", -1.0)
    first = check("clean.py", "-j1", "--output-format", "json", code=0).stdout
    monkeypatch.setattr("outplace.source.project.MOST_SECONDS", 5.0)
    assert check("clean.py", "-j1", "--output-format", "json", code=0).stdout == first
    assert len(json.loads(first)) == 1


def test_text_shows_both_places():
    write("model.py")
    out = check(code=1).stdout
    assert out.splitlines()[0].startswith("OUT201 saved [error]: ")
    assert "model.py:6:5 in f" in out
    assert "5 │     y = torch.sigmoid(x @ w)" in out
    assert "─ saved here" in out
    assert "^^^^^^ overwritten here" in out
    assert out.endswith("Found 1 error in 1 file.\nMore: outplace explain OUT201\n")


def test_concise():
    write("pkg/model.py")
    (line,) = concise()
    assert line.startswith("pkg/model.py:6:5: OUT201 [error] ")
    assert line.endswith(" (saved at pkg/model.py:5)")


def test_clean():
    write("model.py", CLEAN)
    result = check(code=0)
    assert (result.stdout, result.stderr) == ("All checks passed!\n", "")
    assert check("--quiet", code=0).output == ""


def test_json_is_the_contract():
    write("model.py")
    (finding,) = json.loads(check("--output-format", "json", code=1).stdout)
    message = finding.pop("message")
    assert "sigmoid" in message
    finding.pop("fix")
    assert finding == {
        "kind": "saved",
        "rule": "saved",
        "code": "OUT201",
        "severity": "error",
        "file": "model.py",
        "line": 6,
        "end_line": 6,
        "column": 4,
        "end_column": 10,
        "saved_by": {
            "file": "model.py",
            "line": 5,
            "end_line": 5,
            "column": 8,
            "end_column": 28,
            "function": "f",
            "text": "torch.sigmoid(x @ w)",
        },
    }
    write("model.py", CLEAN)
    assert check("--output-format", "json", code=0).stdout == "[]\n"


def test_github():
    write("model.py")
    out = check("--output-format", "github", code=1).stdout
    assert out.startswith(
        "::error title=outplace (OUT201),file=model.py,line=6,endLine=6,col=5,endColumn=11::model.py:6:5"
    )


def test_output_file(folder):
    write("model.py")
    result = check("--output-format", "json", "-o", "out.json", code=1)
    assert result.output == ""
    assert len(json.loads(Path("out.json").read_text())) == 1
    check("-o", "out.txt", code=1)
    assert "overwritten here" in Path("out.txt").read_text()
    assert "\x1b" not in Path("out.txt").read_text()
    assert check("-o", "-", code=1).stdout == check(code=1).stdout
    assert not Path("-").exists()
    result = check("-o", "no/out.txt", code=2)
    assert "cannot write the findings to no/out.txt: there is no folder no" in result.output


def test_selection():
    write("model.py")
    for on in (["--select", "saved"], ["--select", "OUT1,OUT2"], ["--ignore", "OUT3"], ["--extend-select", "leaf"]):
        assert len(concise(*on)) == 1
    for off in (["--select", "leaf"], ["--ignore", "OUT2"], ["--ignore", "leaf", "--ignore", "saved"]):
        assert concise(*off, code=0) == []
    result = check("--select", "savd", code=2)
    assert "outplace: --select: no rule is called 'savd'; did you mean saved?" in result.output


def test_noqa():
    write("on.py", comment="  # noqa: OUT202")
    write("off.py", comment="  # noqa: saved")
    write("all.py", BUG + "# outplace: noqa\n")
    write("typo.py", comment="  # noqa: OUT200")
    result = check("--output-format", "concise", code=1)
    assert [line.split(":")[0] for line in result.stdout.splitlines()[:-1]] == ["on.py", "typo.py"]
    assert "outplace: typo.py:6: noqa names no rule: OUT200; did you mean OUT20" in result.stderr


def test_configuration_and_the_ways_around_it():
    write("pkg/model.py")
    write("pyproject.toml", '[tool.outplace]\nignore = ["saved"]\n')
    assert concise("pkg", code=0) == []
    assert len(concise("pkg", "--isolated")) == 1
    write("other.toml", 'select = ["OUT2"]\n')
    assert len(concise("--config", "other.toml")) == 1
    write("pyproject.toml", '[tool.outplace]\noutput-format = "json"\nseverity = "loud"\n')
    assert "pyproject.toml: severity must be one of warning, error, not 'loud'" in check(code=2).output
    check("--config", "other.toml", "--isolated", code=2)
    check("--config", "missing.toml", code=2)


def test_per_file_ignores():
    write("tests/a.py")
    write("src/b.py")
    write("pyproject.toml", '[tool.outplace.per-file-ignores]\n"tests/" = ["OUT2"]\n')
    assert [line.split(":")[0] for line in concise()] == ["src/b.py"]


def test_exclude_and_gitignore():
    for name in ("a.py", "gen/b.py", "old/c.py", "build/d.py"):
        write(name)
    write(".gitignore", "gen/\n")

    def files(*args):
        return [line.split(":")[0] for line in concise(*args)]

    assert files() == ["a.py", "old/c.py"]
    assert files("--extend-exclude", "old") == ["a.py"]
    assert files("--exclude", "a.py") == files("--extend-exclude", "a.py") == ["old/c.py"]
    assert files("--no-respect-gitignore") == ["a.py", "gen/b.py", "old/c.py"]
    assert files("gen", "build/d.py") == ["build/d.py", "gen/b.py"]
    assert files("*/c.py") == ["old/c.py"]
    named = ("a.py", "old/c.py", "build/d.py", "gen/b.py")
    assert files("--force-exclude", "--extend-exclude", "old/", *named) == ["a.py", "gen/b.py"]


def test_severity(monkeypatch):
    write("model.py")
    from dataclasses import replace

    from outplace.source import analysis

    real = analysis.check_file

    def milder(*args):
        checked = real(*args)
        return replace(checked, findings=[replace(finding, severity="warning") for finding in checked.findings])

    monkeypatch.setattr(analysis, "check_file", milder)
    result = check("--no-cache", code=1)
    assert "OUT201 saved [warning]" in result.stdout
    assert "Found 1 warning in 1 file." in result.stdout
    assert "All checks passed!" in check("--no-cache", "--severity", "error", code=0).stdout


def test_exit_zero_and_statistics():
    write("a.py")
    write("b.py")
    check("--exit-zero", code=0)
    out = check("--statistics", code=1).stdout
    assert out == "2  OUT201  saved  a tensor that backward needs is modified after it was saved\n"
    (counted,) = json.loads(check("--statistics", "--output-format", "json", code=1).stdout)
    assert (counted["code"], counted["kind"], counted["count"]) == ("OUT201", "saved", 2)
    assert "--statistics has no sarif form" in check("--statistics", "--output-format", "sarif", code=2).output


def test_stdin():
    (line,) = concise("-", stdin=BUG.replace("{comment}", ""))
    assert line.startswith("<stdin>:6:5: OUT201")
    (line,) = concise("-", "--stdin-filename", "pkg/new.py", stdin=BUG.replace("{comment}", ""))
    assert line.startswith("pkg/new.py:6:5: OUT201")
    write("new.py", "import torch\n")  # what an editor has not saved yet
    out = check("-", "--stdin-filename", "new.py", code=1, stdin=BUG.replace("{comment}", "")).stdout
    assert "5 │     y = torch.sigmoid(x @ w)" in out
    assert check("-", "other.py", code=2, stdin="").output.startswith("outplace: - (stdin) cannot be checked together")
    assert "--stdin-filename needs the path -" in check("--stdin-filename", "x.py", code=2).output
    assert not os.path.exists(".outplace_cache")


def test_stdin_heeds_the_settings_for_its_file():
    write("pyproject.toml", '[tool.outplace.per-file-ignores]\n"gen.py" = ["saved"]\n')
    source = BUG.replace("{comment}", "")
    assert concise("-", "--stdin-filename", "gen.py", stdin=source, code=0) == []
    assert len(concise("-", "--stdin-filename", "own.py", stdin=source)) == 1


def notebook(*cells):
    return json.dumps({"cells": [{"cell_type": "code", "source": cell} for cell in cells], "nbformat": 4})


def test_notebooks():
    first, second = BUG.replace("{comment}", "").split("\n\n\n", 1)
    write("train.ipynb", notebook("%matplotlib inline\n" + first, second.split("\n\n\n")[0], second.split("\n\n\n")[1]))
    (line,) = concise()
    assert line.startswith("train.ipynb:cell 2:3:5: OUT201")
    assert line.endswith("(saved at train.ipynb:cell 2:2)")
    (finding,) = json.loads(check("--output-format", "json", code=1).stdout)
    assert (finding["file"], finding["cell"], finding["line"]) == ("train.ipynb", 2, 3)
    assert (finding["saved_by"]["file"], finding["saved_by"]["cell"]) == ("train.ipynb", 2)
    out = check(code=1).stdout
    assert "train.ipynb:cell 2:3:5 in f" in out
    assert "2 │     y = torch.sigmoid(x @ w)" in out
    annotated = check("--output-format", "github", code=1).stdout
    assert annotated.startswith("::error title=outplace (OUT201),file=train.ipynb::train.ipynb:cell 2:3:5: OUT201")


def test_a_broken_notebook_is_one_message():
    write("bad.ipynb", '{"torch": ')
    write("good.py")
    out = concise()
    assert out[1:] == ["bad.ipynb:1: not a notebook: invalid JSON (Expecting value)"]
    write("bad.ipynb", notebook("import torch", "x = 1\ndef f(:\n  y.add_(1)"))
    assert concise()[1].startswith("bad.ipynb:cell 2:2: SyntaxError: ")


@pytest.mark.parametrize("form", FORMATS)
def test_a_syntax_error_is_one_message_and_the_rest_is_checked(form):
    write("bad.py", SYNTAX)
    write("good.py")
    result = check("--output-format", form, code=1)
    for_machines = form in FOR_MACHINES  # people see it on stderr
    assert (result.output.count("bad.py:2: SyntaxError: "), "SyntaxError" in result.stderr) == (
        1 + (for_machines and form != "json"),
        for_machines,
    )
    assert "OUT201" in result.stdout
    os.remove("good.py")
    check("--output-format", form, code=1)
    check("--output-format", form, "--exit-zero", code=0)


def test_a_fault_of_ours_is_exit_code_2(monkeypatch):
    write("a.py")
    write("b.py")
    from outplace.source import analysis

    real = analysis.check_file

    def faulty(path, source, project):
        if path.endswith("a.py"):
            raise KeyError("x")
        return real(path, source, project)

    monkeypatch.setattr(analysis, "check_file", faulty)
    out = check("--output-format", "concise", code=2).stdout
    assert "b.py:6:5: OUT201" in out
    assert "a.py: internal error of outplace, please report it: KeyError: 'x' at test_check.py:" in out


def test_missing_paths_and_empty_folders():
    assert check("gone.py", code=2).output == "outplace: gone.py: no such file or folder\n"
    os.mkdir("empty")
    result = check("empty", code=0)
    assert result.stderr == "outplace: no Python files found in empty\n"
    assert result.stdout == "All checks passed!\n"


def test_baseline():
    write("model.py")
    result = check("--write-baseline", "known.json", code=0)
    assert (result.stdout, result.stderr) == ("", "outplace: wrote 1 finding to known.json\n")
    assert check("--baseline", "known.json", code=0).stdout == "All checks passed!\n"
    write("model.py", "# a line more\n" + BUG + "y = w.exp()\ny *= w\ny.sum().backward()\n")
    (line,) = concise("--baseline", "known.json")
    assert line.startswith("model.py:14:1: OUT201")
    write("model.py", CLEAN)
    result = check("--baseline", "known.json", code=0)
    assert result.stderr == "outplace: 1 finding of the baseline is gone; update it with --write-baseline\n"
    assert "cannot read the baseline gone.json" in check("--baseline", "gone.json", code=2).output
    write("pyproject.toml", '[tool.outplace]\nbaseline = "known.json"\n')
    write("model.py")
    check(code=0)
    check("--write-baseline", "known.json", code=0)
    assert len(json.loads(Path("known.json").read_text())["findings"]) == 1


def test_the_cache_is_next_to_the_configuration(monkeypatch):
    write("pkg/model.py")
    write("pyproject.toml", "[tool.outplace]\n")
    check("pkg", "--no-cache", code=1)
    assert not os.path.exists(".outplace_cache")
    monkeypatch.chdir("pkg")
    check(code=1)
    assert os.listdir(".") == ["model.py"]
    assert Path("../.outplace_cache/.gitignore").read_text() == "*\n"
    first = check("--output-format", "json", code=1).stdout
    monkeypatch.setattr("outplace.source.analysis.check_file", None)
    assert check("--output-format", "json", code=1).stdout == first
    monkeypatch.chdir("..")  # the cache knows files, not working folders
    (finding,) = json.loads(check("--output-format", "json", code=1).stdout)
    assert finding["file"] == "pkg/model.py"


def test_the_cache_folder_can_be_chosen():
    write("model.py")
    check("--cache-dir", "deep/cache", code=1)
    assert os.path.exists("deep/cache/.gitignore")
    assert not os.path.exists(".outplace_cache")
    check(".", code=1)


def test_ruffs_rule_that_makes_such_bugs_is_told_once():
    write("a.py", CLEAN)
    write("b.py", CLEAN)
    write("pyproject.toml", '[tool.ruff.lint]\nselect = ["PLR6104"]\n')
    result = check(code=0)
    assert result.stderr.count("enables ruff's PLR6104") == 1
    assert check("--quiet", code=0).stderr == ""


def test_many_files_in_many_processes_give_the_same():
    for number in range(12):
        write(f"p{number % 3}/m{number}.py", "\n" * number + BUG)
    alone = check("--no-cache", "-j", "1", "--output-format", "json", code=1).stdout
    assert check("--no-cache", "-j", "3", "--output-format", "json", code=1).stdout == alone
    assert len(json.loads(alone)) == 12


def run(*args, **more):
    """In a process of its own, where torch cannot be imported."""
    program = (
        "import importlib.machinery, sys\n"
        "class Block:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('torch', 'numpy'):\n"
        "            return importlib.machinery.ModuleSpec(name, self)\n"
        "    def create_module(self, spec):\n"
        "        raise AssertionError(f'{spec.name} is imported')\n"
        "sys.meta_path.insert(0, Block())\n"
        "from outplace.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    command = [sys.executable, "-c", program, "check", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **more)


@pytest.mark.parametrize("form", FORMATS)
def test_torch_is_not_needed(form):
    write("model.py")
    result = run("--output-format", form, "--no-cache")
    assert (result.returncode, result.stderr) == (1, "")
    assert "OUT201" in result.stdout


@pytest.mark.parametrize("form", FORMATS)
def test_names_that_no_encoding_has(form, folder):
    odd = os.path.join(os.fsencode(folder), b"\xff \xc3\xbc\n.py")
    with open(odd, "w") as stream:
        stream.write(BUG.replace("{comment}", "  # noqa: OUT999"))
    with open(odd.replace(b".py", b"2.py"), "w") as stream:
        stream.write(SYNTAX)
    for encoding in ("utf-8", "ascii"):
        result = run("--output-format", form, env=os.environ | {"PYTHONIOENCODING": encoding})
        assert result.returncode == 1, result.stderr
        assert "OUT201" in result.stdout
        assert "Traceback" not in result.stderr
    assert run("--output-format", form, "-o", "out").returncode == 1


def test_a_reader_that_has_seen_enough():
    for number in range(40):
        write(f"m{number}.py")
    command = f"{sys.executable} -m outplace check | head -1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert result.stderr == ""
    assert result.stdout.startswith("OUT201")


def test_help_names_every_option():
    out = check("--help", code=0).stdout
    for option in ("--select", "--ignore", "--extend-exclude", "--baseline", "--output-format", "--stdin-filename"):
        assert option in out
    assert "Exit codes: 0 nothing found, 1 findings" in " ".join(out.split())


def test_a_named_file_is_parsed_even_without_torch():
    write("bad.py", "def f(:\n")
    write("quiet.py", "import torch\n\ndef f(:\n")  # nothing in it looks like a write
    write("good.py", "x = 1\n")
    assert concise("good.py", code=0) == []
    assert concise(code=0) == []  # a folder: they are not our business
    assert concise("bad.py", "good.py", "quiet.py") == [
        "bad.py:1: SyntaxError: invalid syntax",
        "quiet.py:3: SyntaxError: invalid syntax",
    ]
    assert concise("-", stdin="def f(:\n") == ["<stdin>:1: SyntaxError: invalid syntax"]
    write("bad.ipynb", notebook("x = 1", "def f(:"))
    assert concise("bad.ipynb") == ["bad.ipynb:cell 2:1: SyntaxError: invalid syntax"]


def test_a_named_file_that_is_broken_is_told_once():
    write("bad.py", SYNTAX)
    assert len(concise("bad.py")) == 1


def test_functions_that_are_cut_short_are_named_on_request(tmp_path):
    """The findings, the summary and the exit code are those of what was found."""
    start = "import torch\n\ndef f(x: torch.Tensor):\n    z = x.exp()\n"
    long = "    z = z + torch.sin(z)\n" * 1_000
    (tmp_path / "long.py").write_text(f"{start}{long}    z += 1\n    return z\n")
    words = "long.py:3: `f` is too long to follow to its end; a part of it was left out"
    run = [sys.executable, "-m", "outplace"]
    options = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 120}
    plain = subprocess.run([*run, "check", "-n", "long.py"], **options)
    assert (plain.returncode, plain.stderr, plain.stdout) == (0, "", "All checks passed!\n")
    told = subprocess.run([*run, "check", "-n", "--verbose", "long.py"], **options)
    assert (told.returncode, told.stderr, told.stdout) == (0, f"outplace: {words}\n", plain.stdout)
    (note,) = json.loads(subprocess.run([*run, "check", "-n", "--output-format", "json"], **options).stdout)
    assert (note["severity"], note["line"], note["file"]) == ("note", 3, "long.py")
    sarif = json.loads(subprocess.run([*run, "check", "-n", "--output-format", "sarif"], **options).stdout)
    (said,) = sarif["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert (said["level"], said["message"]["text"]) == ("note", words)
    fixed = subprocess.run([*run, "fix", "-v", "long.py"], **options)
    assert fixed.returncode == 0 and f"outplace: {words}\n" in fixed.stderr
