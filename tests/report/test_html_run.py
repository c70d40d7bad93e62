"""`outplace run --html`: the report of real programs, whatever becomes of them."""

from __future__ import annotations

import os
import re
from html import unescape

import pytest

from side_by_side import outplace, outplace_forked, write

pytest.importorskip("torch")

LIMIT = 400_000

SAVED = """
    import torch
    w = torch.ones(3, requires_grad=True)
    def fail(n):
        h = (w * n).exp()
        h += 1
        h.sum().backward()
    """


def text_of(path) -> str:
    page = path.read_text(encoding="utf-8")
    assert len(page.encode()) < LIMIT
    assert page.endswith("</html>")
    return unescape(re.sub(r"<[^>]+>", "", page.split("</style>")[1].split("<script>")[0]))


def test_the_bug_of_a_run_is_drawn(tmp_path):
    write(tmp_path, "prog.py", SAVED + "fail(2)")
    ending = outplace_forked(tmp_path, "run", "--html", "r.html", "--json", "r.json", "prog.py")
    assert ending.code == 1
    page = (tmp_path / "r.html").read_text()
    rows = re.findall(r'<li class="row (\w+)".*?<b>(.*?)</b>', page, re.DOTALL)
    assert rows == [
        ("leaf", "w"),
        ("node", "*"),
        ("saved", "exp"),
        ("overwritten", "+="),
        ("node", "sum"),
        ("raised", "backward"),
    ]
    assert "h = h + 1" in text_of(tmp_path / "r.html")
    assert sorted(os.listdir(tmp_path)) == ["prog.py", "r.html", "r.json"]


def test_it_is_there_after_a_program_was_killed_and_tells_of_all_its_processes(tmp_path):
    write(
        tmp_path,
        "prog.py",
        SAVED
        + """
    import os, signal, sys
    try:
        fail(2)
    except RuntimeError:
        pass
    if os.fork() == 0:
        try:
            w.add_(1)
        except RuntimeError:
            pass
        os._exit(0)
    os.wait()
    os.kill(os.getpid(), signal.SIGKILL)
    """,
    )
    outplace_forked(tmp_path, "run", "--html", "r.html", "prog.py")
    told = text_of(tmp_path / "r.html")
    assert "2 in-place bugs" in told
    assert "OUT201" in told and "OUT101" in told
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


def test_code_that_is_in_no_file_is_shown(tmp_path):
    code = "import torch; w = torch.ones(3, requires_grad=True); h = w.exp()\nh += 1\nh.sum().backward()"
    outplace_forked(tmp_path, "run", "--html", "r.html", "-c", code)
    assert "overwritten here: += (v0 → v1)" in text_of(tmp_path / "r.html")
    assert re.search(r"import torch; w = torch\.ones", text_of(tmp_path / "r.html"))


def test_a_program_without_torch_has_a_page_that_says_so(tmp_path):
    write(tmp_path, "jinja2.py", "raise ImportError('the program has a module of this name')")
    write(tmp_path, "prog.py", "print('fine')")
    ending = outplace(tmp_path, "run", "--html", "r.html", "prog.py")
    assert (ending.code, ending.stdout) == (0, b"fine\n")
    assert "No in-place bug was seen" in text_of(tmp_path / "r.html")
    assert "had not imported torch" in text_of(tmp_path / "r.html")


@pytest.mark.parametrize("target, why", [("none/r.html", "there is no folder"), (".", "it is a folder")])
def test_a_page_that_cannot_be_written_is_said_before_the_program_starts(tmp_path, target, why):
    write(tmp_path, "prog.py", "open('started', 'w')")
    ending = outplace(tmp_path, "run", "--html", target, "prog.py")
    assert ending.code == 2
    assert why in ending.stderr
    assert not (tmp_path / "started").exists()


def test_two_reports_need_two_files(tmp_path):
    ending = outplace(tmp_path, "run", "--html", "r", "--json", "./r", "prog.py")
    assert (ending.code, "the same file" in ending.stderr) == (2, True)


def test_a_repair_draws_what_it_has_repaired(tmp_path):
    write(tmp_path, "prog.py", SAVED + "fail(2)")
    ending = outplace_forked(tmp_path, "run", "--fix", "--html", "r.html", "prog.py")
    assert ending.code == 0
    assert "h += 1" in text_of(tmp_path / "r.html")
    assert "h = h + 1" in (tmp_path / "prog.py").read_text()
