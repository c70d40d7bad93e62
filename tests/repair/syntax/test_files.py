"""Files: read as Python reads them, written as they were written."""

from __future__ import annotations

import os
import stat

import pytest

from outplace.repair.syntax.files import Document, Unwritable, read, write


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"a = 1\n",
        b"a = 1\r\nb = 2\r\n",
        b"a = 1\r\nb = 2\n",
        b"\xef\xbb\xbfa = 1\n",
        b"# coding: latin-1\nx = '\xe9'\n",
        b"a = 1\n\x0cb = 2",
        "x = 'ä'\n".encode(),
    ],
)
def test_what_does_not_change_stays_to_the_byte(data):
    document = Document(data)
    assert document.encode(document.text) == data


def test_a_new_line_ends_like_the_others():
    document = Document(b"a = 1\r\nb = 2\r\n")
    assert document.encode("a = 1\nc = 3\nb = 2\n") == b"a = 1\r\nc = 3\r\nb = 2\r\n"


def test_lines_that_stay_keep_their_ends():
    document = Document(b"a = 1\nb = 2\r\nc = 3\r\n")
    assert document.encode("a = 1\nb = 9\nc = 3\n") == b"a = 1\nb = 9\r\nc = 3\r\n"


def test_a_long_table_of_equal_lines_is_not_compared_line_by_line(monkeypatch):
    monkeypatch.delattr("difflib.SequenceMatcher")  # takes the square of their number
    table = "    0.0,\n" * 1000
    written = Document(f"x = 1\nt = [\n{table}]\n".replace("\n", "\r\n").encode()).encode(f"x = 2\nt = [\n{table}]\n")
    assert written == f"x = 2\nt = [\n{table}]\n".replace("\n", "\r\n").encode()


def test_encoding_and_mark_are_kept():
    assert Document(b"\xef\xbb\xbfa = 1\n").encode("a = 2\n") == b"\xef\xbb\xbfa = 2\n"
    assert Document(b"# coding: latin-1\nx = '\xe9'\n").encode("# coding: latin-1\ny = 'é'\n").endswith(b"y = '\xe9'\n")


def test_what_cannot_be_decoded():
    with pytest.raises(Unwritable):
        Document(b"x = '\xff'\n")


def test_writing_keeps_the_mode_and_leaves_nothing_behind(tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    path.chmod(0o750)
    write(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert os.listdir(tmp_path) == ["a.py"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real.py").write_bytes(b"old")
    (tmp_path / "link.py").symlink_to("real.py")
    write(str(tmp_path / "link.py"), b"new")
    assert (tmp_path / "link.py").is_symlink()
    assert (tmp_path / "real.py").read_bytes() == b"new"


def test_what_is_not_there(tmp_path):
    with pytest.raises(Unwritable):
        read(str(tmp_path / "none.py"))
    with pytest.raises(Unwritable):
        write(str(tmp_path / "none.py"), b"")
