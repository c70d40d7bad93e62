from __future__ import annotations

import ast
import json

import pytest

from outplace.checking import notebook
from outplace.files.reading import Unreadable
from outplace.model import Finding, Fix, Site
from outplace.repair.syntax.edits import unified_diff


def book(*cells, **metadata):
    made = [cell if isinstance(cell, dict) else {"cell_type": "code", "source": cell} for cell in cells]
    return json.dumps({"cells": made, "metadata": metadata, "nbformat": 4}).encode()


TEXT = {"cell_type": "markdown", "source": ["# Title\n", "y += 1"]}


def test_code_cells_become_one_source():
    read = notebook.read(book(TEXT, "import torch\nx = 1", TEXT, ["y = 2\n", "\n", "z = 3"]))
    assert read.source == "import torch\nx = 1\ny = 2\n\nz = 3\n"
    assert read.lines == [(2, 1), (2, 2), (4, 1), (4, 2), (4, 3)]
    assert read.locate(3) == (4, 1)


def test_findings_by_cell_and_line():
    read = notebook.read(book("import torch\na = 1\n", TEXT, "b = (\n  2)\nc = 3"))
    path = "/p/n.ipynb"

    def site(line, end, file=path):
        return Site(file, line, end, 0, 5, "<module>", "")

    found = read.in_cell(Finding("saved", "OUT201", "error", site(4, 5), "m", site(2, 2)), path)
    assert (found.site.file, found.site.line, found.site.end_line) == ("/p/n.ipynb:cell 3", 1, 2)
    assert (found.saved_by.file, found.saved_by.line) == ("/p/n.ipynb:cell 1", 2)
    other = read.in_cell(Finding("saved", "OUT201", "error", site(4, 4), "m", site(9, 9, "/p/lib.py")), path)
    assert (other.saved_by.file, other.saved_by.line) == ("/p/lib.py", 9)


def test_fixes_by_cell():
    read = notebook.read(book("import torch\nx = f()", TEXT, "x += 1\ny = '\f'", "x[0] = 2", "y += 2\nf(x)\nx += 3"))
    new = read.source.replace("x += 1", "x = x + 1").replace("x[0]", "x = x.clone()\nx[0]")
    new = new.replace("y += 2", "y = (\n    y + 2\n)").replace("x += 3", "x = x + 3")
    fix = Fix("Write it out of place", "safe", unified_diff("/p/n.ipynb", read.source, new, context=1))
    site = Site("/p/n.ipynb", 3, 3, 0, 5, "<module>", "")
    found = read.in_cell(Finding("saved", "OUT201", "error", site, "m", None, fix), "/p/n.ipynb")
    cells = {
        3: ("x += 1\ny = '\f'\n", "x = x + 1\ny = '\f'\n"),
        4: ("x[0] = 2\n", "x = x.clone()\nx[0] = 2\n"),
        5: ("y += 2\nf(x)\nx += 3\n", "y = (\n    y + 2\n)\nf(x)\nx = x + 3\n"),
    }
    told = "".join(unified_diff(f"/p/n.ipynb:cell {cell}", *texts, context=1) for cell, texts in cells.items())
    assert found.fix.diff.replace(",1 ", " ") == told.replace(",1 ", " ")


def test_names_of_cells():
    assert notebook.split_cell(notebook.cell_name("/a b/n.ipynb", 12)) == ("/a b/n.ipynb", 12)
    assert notebook.split_cell("/a/n.ipynb") == ("/a/n.ipynb", None)
    assert notebook.split_cell("x.py:cell 3") == ("x.py:cell 3", None)


@pytest.mark.parametrize(
    ("cell", "python"),
    [
        ("%matplotlib inline\nx = 1", "pass  # %matplotlib inline\nx = 1"),
        ("!pip install torch\nx = 1", "pass  # !pip install torch\nx = 1"),
        ("if a:\n    !ls\nx", "if a:\n    pass  # !ls\nx"),
        ("files = !ls\nx", "files = None  # files = !ls\nx"),
        ("t = %time f()", "t = None  # t = %time f()"),
        ("torch.add?\nx", "pass  # torch.add?\nx"),
        ("?torch.add", "pass  # ?torch.add"),
        ("torch.add??", "pass  # torch.add??"),
        ("!pip install \\\n  torch\nx", "pass  # !pip install \\\n#   torch\nx"),
        ("%%time\ny += 1", "# %%time\ny += 1"),
        ("%%timeit -n 3\ny += 1", "# %%timeit -n 3\ny += 1"),
        ("x = (a\n  % b)\n!ls", "x = (a\n  % b)\npass  # !ls"),
        ("x = (a\n  % b)", "x = (a\n  % b)"),  # what is Python already is left alone
        ("s = '''\n%d\n'''", "s = '''\n%d\n'''"),
        ("# why?\n!ls", "# why?\npass  # !ls"),
    ],
)
def test_magics_and_shell_lines(cell, python):
    assert "\n".join(notebook.python_lines(cell)) == python


def test_harmless_lines_parse():
    for cell in ("%matplotlib inline", "!ls\n?x", "with a:\n    %time f()\n    b = !ls", "%%capture out\nx = 1"):
        ast.parse("\n".join(notebook.python_lines(cell)))


def test_cells_for_other_programs():
    read = notebook.read(book("%%bash\necho x += 1", "%%writefile a.py\ny += 1", "z = 1"))
    assert (read.source, read.lines) == ("z = 1\n", [(3, 1)])


def test_other_languages():
    assert notebook.read(book("x <- 1", language_info={"name": "R"})).source == ""
    assert notebook.read(book("x = 1", kernelspec={"language": "python"})).source == "x = 1\n"
    assert notebook.read(book("x = 1", language_info={"name": "ipython"})).source == "x = 1\n"


def test_version_3():
    old = {"worksheets": [{"cells": [{"cell_type": "code", "input": ["x = 1\n", "y = 2"]}]}], "nbformat": 3}
    assert notebook.read(json.dumps(old).encode()).source == "x = 1\ny = 2\n"


@pytest.mark.parametrize(
    ("data", "message", "line"),
    [
        (b"", "not a notebook: the file is empty", 1),
        (b'{"cells": [\n', "not a notebook: invalid JSON (Expecting value)", 2),
        (b"\xff\xfe\x00", "not a notebook: invalid JSON", None),
        (b"[1, 2]", "not a notebook: it has no list of cells", None),
        (b'{"cells": 3}', "not a notebook: it has no list of cells", None),
        (b'{"cells": [{"cell_type": "code", "source": 3}]}', "not a notebook: a code cell has no source", None),
        (b"[" * 100_000, "not a notebook: invalid JSON", None),
    ],
)
def test_broken_ones_are_one_clear_message(data, message, line):
    with pytest.raises(Unreadable) as caught:
        notebook.read(data)
    assert str(caught.value) == message
    assert caught.value.line == line


def test_odd_cells():
    assert notebook.read(b'{"cells": [1, null, {"cell_type": "raw"}, {"cell_type": "code"}]}').source == "\n"
    assert notebook.read(b'{"cells": []}').locate(5) == (1, 1)


def test_line_ends_of_other_systems():
    assert notebook.read(book("x = 1\r\ny = 2\rz = 3")).source == "x = 1\ny = 2\nz = 3\n"
