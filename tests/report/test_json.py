"""The JSON report against the contract that outside tools rely on."""

from __future__ import annotations

import json
import os
import platform
import stat
from pathlib import Path

import pytest

from outplace import __version__
from outplace.errors import OutplaceError
from outplace.model import Diagnosis, Fix, Mutation, SavedTensor, Site, Tensor
from outplace.report.json import ReportError, report, write


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def site(line, file="train.py"):
    return Site(os.path.abspath(file), line, line, 4, 10, "main", "h += 1")


def plain_site(line, file="train.py"):
    return {
        "file": file,
        "line": line,
        "end_line": line,
        "column": 4,
        "end_column": 10,
        "function": "main",
        "text": "h += 1",
    }


def full():
    return Diagnosis(
        kind="saved",
        code="OUT201",
        error="one of the variables needed",
        tensor=Tensor("h", (4, 8), "float32"),
        why="because",
        raised_at=site(9),
        saved_by=SavedTensor("ExpBackward0", "result", 0, site(3)),
        also_saved_by=(SavedTensor("MulBackward0", "self", None, None),),
        mutations=(Mutation("__iadd__", site(5), 1, 12, (site(7, "/lib/torch/nn/functional.py"),)),),
        made_at=site(2),
        cause="kept",
        optimizer_at=site(2),
        kept_at=site(6),
        used_at=site(8),
        fixes=(Fix("Write h = h + 1", "safe", "--- a\n+++ b\n"), Fix("Think", "suggestion")),
        notes=("a note",),
    )


def test_report_follows_the_contract():
    assert report([full()], "2.13.0") == {
        "schema": 1,
        "outplace": __version__,
        "torch": "2.13.0",
        "python": platform.python_version(),
        "diagnoses": [
            {
                "kind": "saved",
                "code": "OUT201",
                "rule": "saved",
                "error": "one of the variables needed",
                "raised_at": plain_site(9),
                "tensor": {"name": "h", "shape": [4, 8], "dtype": "float32", "local_shape": None},
                "saved_by": {
                    "node": "ExpBackward0",
                    "saved_as": "result",
                    "version": 0,
                    "number": None,
                    "site": plain_site(3),
                    "chain": [],
                },
                "also_saved_by": [
                    {
                        "node": "MulBackward0",
                        "saved_as": "self",
                        "version": None,
                        "number": None,
                        "site": None,
                        "chain": [],
                    }
                ],
                "mutations": [
                    {
                        "operation": "__iadd__",
                        "version": 1,
                        "count": 12,
                        "moment": None,
                        "site": plain_site(5),
                        "chain": [plain_site(7, "/lib/torch/nn/functional.py")],
                    }
                ],
                "made_at": plain_site(2),
                "cause": "kept",
                "optimizer_at": plain_site(2),
                "kept_at": plain_site(6),
                "used_at": plain_site(8),
                "why": "because",
                "fixes": [
                    {"title": "Write h = h + 1", "safety": "safe", "diff": "--- a\n+++ b\n"},
                    {"title": "Think", "safety": "suggestion", "diff": None},
                ],
                "notes": ["a note"],
                "graph": None,
            }
        ],
        "sources": {},
    }


def test_missing_evidence_is_null():
    (diagnosis,) = report([Diagnosis("leaf", "OUT101", "message", Tensor(None), "why")], "2.4.0")["diagnoses"]
    assert diagnosis["saved_by"] is None
    assert diagnosis["raised_at"] is None
    assert diagnosis["made_at"] is None
    assert diagnosis["tensor"] == {"name": None, "shape": None, "dtype": None, "local_shape": None}
    assert (diagnosis["mutations"], diagnosis["also_saved_by"], diagnosis["fixes"]) == ([], [], [])


def test_a_scalar_has_an_empty_shape_not_none():
    (diagnosis,) = report([Diagnosis("leaf", "OUT101", "m", Tensor("x", ()), "w")], "2.4.0")["diagnoses"]
    assert diagnosis["tensor"]["shape"] == []


@pytest.mark.parametrize("file", ["/elsewhere/train.py", "<ipython-input-3>", "relative/train.py"])
def test_files_that_are_not_under_the_working_folder_stay_as_they_are(file):
    place = Site(file, 1, 1, 0, 1, "f", "x")
    (diagnosis,) = report([Diagnosis("leaf", "OUT101", "m", Tensor("x"), "w", raised_at=place)], "2.4.0")["diagnoses"]
    assert diagnosis["raised_at"]["file"] == file


def test_write_can_be_read_back():
    write("out.json", [full()], "2.13.0")
    assert json.loads(Path("out.json").read_text("utf-8")) == report([full()], "2.13.0")


def test_write_survives_text_that_has_no_encoding():
    write("out.json", [Diagnosis("leaf", "OUT101", "\ud800 日本", Tensor("x"), "w")], "2.13.0")
    assert json.loads(Path("out.json").read_text("utf-8"))["diagnoses"][0]["error"] == "\ud800 日本"


def test_write_replaces_the_file_in_one_step_and_leaves_nothing_behind(monkeypatch):
    Path("out.json").write_text("old")
    seen = []
    replaced = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (seen.append(Path(b).read_text()), replaced(a, b)))
    write("out.json", [full()], "2.13.0")
    assert seen == ["old"]
    assert os.listdir(".") == ["out.json"]


def test_a_failed_write_leaves_the_old_report(monkeypatch):
    Path("out.json").write_text("old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(ReportError, match=r"cannot write the report to out\.json: no space left on device"):
        write("out.json", [full()], "2.13.0")
    assert os.listdir(".") == ["out.json"]
    assert Path("out.json").read_text() == "old"


def test_the_report_is_as_readable_as_other_files():
    Path("other").touch()
    write("out.json", [], "2.13.0")
    assert stat.S_IMODE(os.stat("out.json").st_mode) == stat.S_IMODE(os.stat("other").st_mode)


def test_a_link_keeps_pointing_where_it_did():
    Path("real.json").write_text("old")
    os.symlink("real.json", "out.json")
    write("out.json", [], "2.13.0")
    assert Path("out.json").is_symlink()
    assert json.loads(Path("real.json").read_text())["diagnoses"] == []


def test_a_pipe_can_be_written_to():
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    write("pipe", [], "2.13.0")
    assert json.loads(os.read(reader, 65536))["schema"] == 1
    os.close(reader)


def test_a_missing_folder_is_named():
    with pytest.raises(ReportError, match=r"cannot write the report to no/out\.json: there is no folder no$") as caught:
        write("no/out.json", [], "2.13.0")
    assert isinstance(caught.value, OutplaceError)
    assert caught.value.exit_code == 2


def test_a_folder_is_no_report():
    os.mkdir("out.json")
    with pytest.raises(ReportError, match="it is a folder"):
        write("out.json", [], "2.13.0")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to():
    os.mkdir("closed", 0o500)
    with pytest.raises(ReportError, match="permission denied"):
        write("closed/out.json", [], "2.13.0")
