"""Files checked in this process and in others, with and without a cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from outplace.checking import file_check, runner
from outplace.checking.cache import Cache, digest, own_files
from outplace.cli.main import main
from outplace.model import Finding, Fix, Site
from outplace.source import analysis
from outplace.source.analysis import Checked, Unparsed
from outplace.source.project import Project

LOADED = """
import sys
from outplace.cli.main import main
assert main(["check", "--quiet", "--output-file", "findings", "a.py"]) == 1
for name, module in sys.modules.items():
    if name.startswith("outplace."):
        print(module.__file__)
"""


def site(path, line, text="x += 1"):
    return Site(path, line, line, 0, len(text), "f", text)


def marked(path, source, project):
    """An analysis that finds what is marked, and rests on what is imported."""
    folder = os.path.dirname(path)
    lines = source.split("\n")
    dependencies = tuple(os.path.join(folder, line.split()[1] + ".py") for line in lines if line.startswith("import m"))
    found = [
        Finding("saved", "OUT201", "error", site(path, number), line, site(path, 1), Fix("copy", "safe", "diff"))
        for number, line in enumerate(lines, 1)
        if line.endswith("# bad")
    ]
    if "crash" in source:
        raise RuntimeError("what\nnow")
    if "die" in source:
        os._exit(9)
    if "syntax" in source:
        return Checked([], Unparsed("SyntaxError: invalid syntax", 2), dependencies)
    return Checked(found, None, dependencies)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(analysis, "check_file", marked)
    return tmp_path


def write(name, text="import torch\nx += 1  # bad\n"):
    with open(name, "w") as stream:
        stream.write(text)
    return os.path.abspath(name)


def found(outcomes):
    return {os.path.basename(outcome.file): [finding.site.line for finding in outcome.findings] for outcome in outcomes}


def test_results_come_in_the_order_of_the_files():
    files = [write(f"{number}.py") for number in (3, 1, 2)]
    assert list(found(runner.check(files, []))) == ["3.py", "1.py", "2.py"]


def test_processes_find_what_one_process_finds():
    texts = ["import torch\n" + "\n" * number + "x += 1  # bad\n" for number in range(40)]
    files = [write(f"{number:02}.py", text) for number, text in enumerate(texts)]
    alone = runner.check(files, [], jobs=1)
    assert runner.check(files, [], jobs=3) == alone
    assert found(alone)["39.py"] == [41]


def test_files_without_the_word_torch_are_not_even_parsed():
    assert runner.check([write("a.py", "def broken(:  # bad\n")], []) == []


def test_one_bad_file_does_not_stop_the_others():
    files = [write("a.py", "torch\nsyntax"), write("b.py"), write("c.py", "torch crash"), write("d.py")]
    outcomes = runner.check(files, [])
    assert found(outcomes) == {"a.py": [], "b.py": [2], "c.py": [], "d.py": [2]}
    syntax, crash = outcomes[0].failure, outcomes[2].failure
    assert (syntax.message, syntax.line, syntax.internal) == ("SyntaxError: invalid syntax", 2, False)
    assert crash.internal
    assert crash.message.startswith(
        "internal error of outplace, please report it: RuntimeError: what now at test_runner.py"
    )


def test_a_file_that_kills_its_process_is_named():
    files = [write(f"{number}.py") for number in range(4)] + [write("dead.py", "torch die")]
    outcomes = runner.check(files, [], jobs=2)
    assert found(outcomes) == {"0.py": [2], "1.py": [2], "2.py": [2], "3.py": [2], "dead.py": []}
    assert "Python died" in outcomes[-1].failure.message
    assert outcomes[-1].failure.internal


def test_files_too_large_for_a_person(monkeypatch):
    monkeypatch.setattr("outplace.files.reading.LARGEST", 100)
    files = [write("big.py", "import torch\n" + "#" * 100)]
    (outcome,) = runner.check(files, [])
    assert outcome.failure is None
    assert "skipped: 0.0 MB is too large" in outcome.notes[0].message


def test_files_that_are_gone():
    (outcome,) = runner.check([os.path.abspath("gone.py")], [])
    assert outcome.failure.message == "cannot be read: no such file or directory"


@pytest.mark.parametrize(
    ("data", "message", "line"),
    [
        (b"torch\n\n'caf\xe9'\n", "not utf-8: byte 0xe9 cannot be decoded", 3),
        (b"# coding: nothing\ntorch\n", "SyntaxError: unknown encoding: nothing", 1),
        (b"\xef\xbb\xbf# coding: latin-1\ntorch", "SyntaxError: encoding problem: utf-8", 1),
        (b"# coding: rot13\ntorch\n", "cannot be decoded as rot13", None),
    ],
)
def test_encodings_that_python_cannot_read_either(data, message, line):
    failure = file_check.check_data("/a.py", data, Project()).failure
    assert (message in failure.message, failure.line) == (True, line)


@pytest.mark.parametrize(
    "data",
    [
        b"# coding: latin-1\ntorch = 'caf\xe9'  # bad\n",
        b"\xef\xbb\xbfimport torch\nx += 1  # bad",
        b"import torch\r\nx += 1  # bad\r\n",
        b"import torch\rx += 1  # bad\r",
    ],
)
def test_encodings_and_line_ends_that_it_can(data):
    (finding,) = file_check.check_data("/a.py", data, Project()).findings
    assert finding.site.line == 2


def test_progress_is_told():
    told = []
    files = [write("a.py", "x = 1\n"), write("b.py"), write("c.py")]
    runner.check(files, [], progress=lambda done, total: told.append((done, total)))
    assert told == [(2, 3), (3, 3)]


class TestCache:
    @pytest.fixture
    def calls(self, monkeypatch):
        made = []

        def counted(path, source, project):
            made.append(os.path.basename(path))
            return marked(path, source, project)

        monkeypatch.setattr(analysis, "check_file", counted)
        monkeypatch.setattr(file_check, "_with_fixes", lambda path, source, findings, project: findings)
        return made

    def check(self, *files, roots=()):
        return runner.check(files, roots, Cache(os.path.abspath("cache"), roots))

    def test_what_is_known_is_not_analysed_again(self, calls):
        files = [write("a.py"), write("b.py", "torch\nsyntax"), write("c.py", "torch  # noqa: OUT999\n")]
        first = self.check(*files)
        assert calls == ["a.py", "b.py", "c.py"]
        assert self.check(*files) == first
        assert len(calls) == 3

    def test_it_goes_by_content(self, calls):
        file = write("a.py")
        self.check(file)
        os.utime(file, (1, 1))
        self.check(file)
        assert len(calls) == 1
        write("a.py", "import torch\n\nx += 1  # bad\n")
        assert found(self.check(file)) == {"a.py": [3]}

    def test_files_that_others_rest_on(self, calls):
        user, library = write("a.py", "import torch\nimport m\n"), write("m.py", "y = 1\n")
        self.check(user)
        self.check(user)
        assert len(calls) == 1
        write("m.py", "y = 2\n")
        self.check(user)
        assert len(calls) == 2
        os.remove(library)
        self.check(user)
        self.check(user)
        assert len(calls) == 3
        write("m.py", "y = 2\n")  # one that was missing has come
        self.check(user)
        assert len(calls) == 4

    def test_other_settings_and_other_versions(self, calls, monkeypatch):
        file = write("a.py")
        self.check(file)
        self.check(file, roots=["/else"])
        monkeypatch.setattr("outplace.checking.cache.__version__", "99")
        self.check(file)
        assert len(calls) == 3

    def test_other_code_of_ours(self, calls, monkeypatch, tmp_path):
        code = tmp_path / "code.py"
        code.write_text("1")
        monkeypatch.setattr("outplace.checking.cache.own_files", lambda: [str(code)])
        file = write("a.py")
        self.check(file)
        os.utime(code, (1, 1))  # installed anew
        self.check(file)
        assert len(calls) == 1
        code.write_text("2")
        self.check(file)
        assert len(calls) == 2

    def test_all_code_that_makes_a_result_counts(self, tmp_path):
        bug = "x = torch.ones(2, requires_grad=True).exp()\nx += 1\nx.sum().backward()\n"
        (tmp_path / "a.py").write_text(f"import torch\n{bug}")
        done = subprocess.run([sys.executable, "-c", LOADED], cwd=tmp_path, capture_output=True, text=True, check=True)
        package = os.path.dirname(os.path.dirname(file_check.__file__))
        rest = (f"{package}/cli/", f"{package}/report/")
        loaded = {path for path in done.stdout.splitlines() if not path.startswith(rest)}
        assert loaded - set(own_files()) == {f"{package}/{name}.py" for name in ("errors", "settings", "version")}
        assert f"{package}/repair/drive/from_source.py" in loaded

    @pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"3", b"\xff\x00", b'{"era": 1}', b"[" * 100_000])
    def test_damage_is_passed_over(self, calls, damage):
        file = write("a.py")
        first = self.check(file)
        (entry,) = (path for path in os.listdir("cache") if path.endswith(".json"))
        with open(f"cache/{entry}", "wb") as stream:
            stream.write(damage)
        assert self.check(file) == first
        assert len(calls) == 2
        self.check(file)
        assert len(calls) == 2  # repaired

    def test_damage_within(self, calls):
        file = write("a.py")
        self.check(file)
        (entry,) = (path for path in os.listdir("cache") if path.endswith(".json"))
        data = json.loads(Path("cache", entry).read_text())
        data["findings"][0][3] = ["too", "short"]
        with open(f"cache/{entry}", "w") as stream:
            json.dump(data, stream)
        assert found(self.check(file)) == {"a.py": [2]}

    def test_faults_of_ours_are_not_kept(self, calls):
        file = write("a.py", "torch crash")
        self.check(file)
        self.check(file)
        assert len(calls) == 2

    def test_it_keeps_out_of_repositories(self):
        self.check(write("a.py"))
        assert Path("cache/.gitignore").read_text() == "*\n"
        assert os.path.exists("cache/CACHEDIR.TAG")

    def test_a_place_that_cannot_be_written(self, folder):
        (folder / "cache").write_text("a file")
        assert found(self.check(write("a.py"), write("b.py"))) == {"a.py": [2], "b.py": [2]}

    def test_entries_are_small(self):
        self.check(write("a.py", "import torch\n" + "x = 1\n" * 10_000))
        assert max(os.path.getsize(f"cache/{name}") for name in os.listdir("cache")) < 1000

    def test_a_finding_comes_back_whole(self):
        file = write("a.py")
        (fresh,), (kept,) = self.check(file), self.check(file)
        assert kept.findings == fresh.findings
        assert kept.findings[0].fix == Fix("copy", "safe", "diff")
        assert replace(kept, notes=()) == fresh

    def test_findings_without_fixes(self):
        """Some formats show no fix. Then none is made; where one is to be shown later, the file is analysed again."""
        file, none = write("a.py"), write("b.py", "import torch\n")
        cache = Cache(os.path.abspath("cache"), [])
        without = runner.check([file, none], [], cache, fixes=False)
        assert cache.get(file, digest(Path(file).read_bytes())) is None
        assert cache.get(none, digest(Path(none).read_bytes())) is not None
        assert [item.fix for item in runner.check([file], [], cache, fixes=False)[0].findings] == [
            item.fix for item in without[0].findings
        ]
        runner.check([file], [], cache)
        assert cache.get(file, digest(Path(file).read_bytes())) is not None
        assert cache.get(file, digest(Path(file).read_bytes()), fixes=False) is not None


@pytest.mark.parametrize(("format", "made"), [("concise", 0), ("github", 0), ("text", 1), ("json", 1), ("sarif", 1)])
def test_only_fixes_that_are_shown_are_made(folder, monkeypatch, format, made):
    calls = []
    monkeypatch.setattr(file_check, "_with_fixes", lambda path, source, findings, project: calls.append(1) or findings)
    write("a.py")
    main(["check", "--no-cache", "--isolated", "--output-format", format, "a.py"])
    main(["check", "--no-cache", "--isolated", "--statistics", "a.py"])
    assert len(calls) == made


def test_the_surest_finding_of_a_place_is_kept(monkeypatch):
    def analyse(path, source, project):
        severity, home = ("error", "a.py") if path.endswith("b.py") else ("warning", path)
        return Checked([Finding("saved", "OUT201", severity, site(os.path.abspath(home), 2), "told")], None, ())

    monkeypatch.setattr(analysis, "check_file", analyse)
    for files in ([write("a.py"), write("b.py")], [write("b.py"), write("a.py")]):
        outcomes = runner.check(files, [], jobs=1)
        assert [finding.severity for outcome in outcomes for finding in outcome.findings] == ["error"]
