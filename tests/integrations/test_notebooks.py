"""The IPython extension, in a real kernel and in a real terminal session."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from side_by_side import environment

pytest.importorskip("torch")
nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

CELLS = {
    "load": "%load_ext outplace",
    "define": "import torch\n\ndef layer(w):\n    h = (w * 2).exp()\n    h += 1\n    return h",
    "use": "w = torch.ones(3, requires_grad=True)\nh = layer(w)\nh",
    "fails": "total = h.sum()\ntotal.backward()",
    "timed": "%%time\nw = torch.ones(3, requires_grad=True)\n\ny = w.sigmoid()\ny.mul_(2)\ny.sum().backward()",
    "caught": "try:\n    w[0] = 1\nexcept RuntimeError:\n    print('never mind')",
    "other error": "{}['key']",
    "await": "import asyncio\nawait asyncio.sleep(0)\nw.tanh().add_(1).sum().backward()",
    "off": "%outplace off",
    "unseen": "z = w.tanh()\nz.data.zero_()\nz.sum().backward()",
    "fails when off": "z = w.tanh()\nz.add_(1)\nz.sum().backward()",
    "watched": "import outplace\nwith outplace.watch():\n    z = w.tanh()\n    z.add_(1)\n    z.sum().backward()",
    "one cell": "%%outplace\nz = w.tanh()\nz.data.zero_()\nz.sum().backward()",
    "good cell": "%%outplace\nw.sum().backward()\n1 + 1",
    "is it on": "%outplace",
    "wrong word": "%outplace maybe",
    "escaped": "%outplace on\nx = w.exp(); x.add_(1)  # </pre><script>alert(1)</script>\nx.sum().backward()",
    "unload": "%unload_ext outplace",
    "unloaded": "x = w.exp(); x.add_(1)\nx.sum().backward()",
}


@pytest.fixture(scope="module")
def shown():
    """The outputs of each cell."""
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS.values()]
    notebook = nbformat.v4.new_notebook(cells=cells)
    kernel = {"display_name": "this Python", "language": "python", "name": "python3"}
    notebook.metadata["kernelspec"] = kernel
    with pytest.MonkeyPatch.context() as patch:
        for name in ("OUTPLACE", "PYTEST_CURRENT_TEST"):
            patch.delenv(name, raising=False)
        nbclient.NotebookClient(notebook, timeout=200, allow_errors=True, kernel_name="python3").execute()
    assert [cell.execution_count for cell in notebook.cells] == list(range(1, len(CELLS) + 1))
    return {name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)}


def plain_texts(outputs):
    return [output.data["text/plain"] for output in outputs if output.output_type == "display_data"]


def error_text(outputs):
    (error,) = [output for output in outputs if output.output_type == "error"]
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback))


def printed(outputs):
    return "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")


def number(name):
    return list(CELLS).index(name) + 1


def test_cells_that_do_nothing_wrong_show_what_they_always_show(shown):
    assert shown["load"] == shown["define"] == []
    (result,) = shown["use"]
    assert (result.output_type, result.data["text/plain"][:6]) == ("execute_result", "tensor")


def test_a_failing_cell_shows_its_diagnosis_below_the_traceback(shown):
    error, diagnosis = shown["fails"]
    assert error.output_type == "error" and error.evalue.startswith("one of the variables needed")
    assert "OUT201" not in error_text(shown["fails"])  # it is shown once
    text = diagnosis.data["text/plain"]
    assert text.startswith("OUT201 saved: h (float32[3]) was overwritten after exp kept it for backward")
    assert f"Cell In[{number('define')}], line 4 in layer" in text
    assert "5 │     h += 1\n    │     ^^^^^^ overwritten here" in text
    assert f"Cell In[{number('fails')}], line 2" in text
    page = diagnosis.data["text/html"]
    assert f"In[{number('define')}]" in page and "ipykernel_" not in page
    assert "exp" in page and "OUT201" in page


def test_the_lines_of_a_timed_cell_are_those_of_the_cell(shown):
    (text,) = plain_texts(shown["timed"])
    assert f"Cell In[{number('timed')}], line 4\n" in text
    assert "5 │ y.mul_(2)" in text
    assert "Wall time" in printed(shown["timed"])


def test_errors_that_the_cell_caught_and_errors_of_others(shown):
    assert printed(shown["caught"]) == "never mind\n"
    (text,) = plain_texts(shown["caught"])
    assert text.startswith("Errors that the cell caught:\n\nOUT102 leaf-view: w (float32[3])")
    assert [output.output_type for output in shown["other error"]] == ["error"]


def test_a_cell_with_await(shown):
    (text,) = plain_texts(shown["await"])
    assert f"Cell In[{number('await')}], line 3" in text


def test_off(shown):
    assert shown["unseen"] == []
    assert [output.output_type for output in shown["fails when off"]] == ["error"]
    assert "OUT201" not in error_text(shown["fails when off"])
    (text,) = plain_texts(shown["watched"])
    assert text.startswith("OUT201 saved: z (float32[3])")


def test_one_cell(shown):
    (text,) = plain_texts(shown["one cell"])
    assert text.startswith("No error was raised here, but the gradient is wrong:\n\nOUT301 silent-data: z")
    assert f"Cell In[{number('one cell')}], line 2" in text and "3 │ z.data.zero_()" in text
    assert printed(shown["good cell"]) == "outplace: no in-place bug in this cell.\n"
    assert [output.data["text/plain"] for output in shown["good cell"] if "data" in output] == ["2"]
    assert printed(shown["is it on"]) == "outplace is off\n"
    (usage,) = shown["wrong word"]
    assert "UsageError: %outplace takes on, off or nothing, not 'maybe'" in usage.text


def test_what_the_user_wrote_stays_text(shown):
    (page,) = [output.data["text/html"] for output in shown["escaped"] if output.output_type == "display_data"]
    assert "<script>alert(1)" not in page


def test_unloading(shown):
    assert [output.output_type for output in shown["unloaded"]] == ["error"]
    assert "OUT201" not in error_text(shown["unloaded"])


def test_in_a_terminal():
    """Functions that were there before have no marks: their lines are found by tags."""
    lines = """
import torch
def layer(w): return w.exp()

%load_ext outplace
w = torch.ones(3, requires_grad=True)
h = layer(w)
h.add_(1).sum().backward()
"""
    command = [
        sys.executable,
        "-m",
        "IPython",
        "--simple-prompt",
        "--no-banner",
        "--colors=NoColor",
        "--no-confirm-exit",
    ]
    ran = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=200, env=environment())
    assert "OUT201 saved: h (float32[3]) was overwritten after exp kept it for backward" in ran.stdout
    assert re.search(r"Cell In\[2\], line 1 in layer\n.*def layer\(w\): return w.exp\(\)\n.*saved here", ran.stdout)
    assert re.search(r"h\.add_\(1\).*\n.*\^{9} overwritten here: add_", ran.stdout)
    assert ran.stdout.count("OUT201 saved") == 1
