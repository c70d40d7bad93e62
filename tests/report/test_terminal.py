"""The terminal report, compared as text. `OUTPLACE_REGENERATE=1 pytest tests/report` rewrites golden/*.txt."""

from __future__ import annotations

import io
import linecache
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from outplace.model import Diagnosis, Fix, Mutation, SavedTensor, Site, Tensor
from outplace.report.console import for_stream
from outplace.report.terminal import as_text, render

GOLDEN = Path(__file__).parent / "golden"
WIDTHS = (40, 60, 100, 200)

TRAIN = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.fc(x)
        h = torch.exp(x)
        gate = h.sigmoid()
        out = h * gate
        for _ in range(12):
            h.mul_(0.9)
        h += 1
        out = self.relu(h) + out

        return out.sum()


def main():
    net = Net()
    loss = net(torch.rand(4, 8))

    loss.backward()
    w = torch.ones(4, requires_grad=True)
    w[1] = 0
"""

DIFF = """\
--- a/train.py
+++ b/train.py
@@ -14,7 +14,7 @@
         gate = h.sigmoid()
         out = h * gate
         for _ in range(12):
-            h.mul_(0.9)
+            h = h.mul(0.9)
         h += 1
         out = self.relu(h) + out
\x20
"""


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    linecache.clearcache()
    Path("train.py").write_text(TRAIN, encoding="utf-8")
    return tmp_path


def site(line, expression, function="Net.forward", file="train.py"):
    text = Path(file).read_text("utf-8").splitlines()[line - 1]
    column = text.index(expression)
    return Site(os.path.abspath(file), line, line, column, column + len(expression), function, text.strip())


def library(file, line, function):
    return Site(f"/venv/lib/python3.11/site-packages/torch/nn/{file}", line, line, 0, 0, function, "")


def saved():
    through = (
        library("modules/module.py", 1751, "Module._wrapped_call_impl"),
        library("modules/activation.py", 103, "ReLU.forward"),
        library("functional.py", 1500, "relu"),
    )
    return Diagnosis(
        kind="saved",
        code="OUT201",
        error="one of the variables needed for gradient computation has been modified by an inplace operation",
        tensor=Tensor("h", (4, 8), "float32"),
        why="exp needs its result for its gradient. The result was overwritten before backward could read it.",
        raised_at=site(28, "loss.backward()", "main"),
        saved_by=SavedTensor("ExpBackward0", "result", 0, site(13, "torch.exp(x)")),
        also_saved_by=(
            SavedTensor("SigmoidBackward0", "result", 0, site(14, "h.sigmoid()")),
            SavedTensor("MulBackward0", "self", 0, site(15, "h * gate")),
        ),
        mutations=(
            Mutation("mul_", site(17, "h.mul_(0.9)"), 12, 12),
            Mutation("__iadd__", site(18, "h += 1"), 13),
            Mutation("relu_", site(19, "self.relu(h)"), 14, 1, through),
        ),
        fixes=(
            Fix("Multiply into a new tensor", "safe", DIFF),
            Fix("Use nn.ReLU() without inplace=True", "unsafe"),
            Fix("Clone h before the loop", "suggestion"),
        ),
        notes=("The loop wrote 12 times; the last version is shown.",),
    )


def leaf_view():
    return Diagnosis(
        kind="leaf-view",
        code="OUT102",
        error="a view of a leaf Variable that requires grad is being used in an in-place operation.",
        tensor=Tensor("w[1]", (), "torch.float32"),
        why="w is a leaf. A write into a view of it would leave nothing to differentiate by.",
        raised_at=site(30, "w[1] = 0", "main"),
        made_at=site(29, "torch.ones(4, requires_grad=True)", "main"),
        mutations=(Mutation("__setitem__", site(30, "w[1] = 0", "main")),),
    )


def bare(**changes):
    return replace(Diagnosis("saved", "OUT201", "message", Tensor(None), ""), **changes)


def marked(source, column, end_column, *, line=1, file="code.py", width=100, encoding="utf-8"):
    """The report on one write at these columns of a file with this source."""
    Path(file).write_text(source, encoding="utf-8")
    place = Site(os.path.abspath(file), line, line, column, end_column, "f", "")
    return as_text([bare(mutations=(Mutation("add_", place, 1),))], width, encoding)


def rows(text):
    """The source row that has a mark under it, and the row with the mark, both without their gutter."""
    lines = text.splitlines()
    under = next(number for number, line in enumerate(lines) if "^" in line)
    return tuple(line.split("│ ", 1)[1] for line in lines[under - 1 : under + 1])


def assert_golden(name, text):
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("OUTPLACE_REGENERATE"):
        path.write_text(text + "\n", encoding="utf-8")
    assert text + "\n" == path.read_text("utf-8")


@pytest.mark.parametrize("width", WIDTHS)
def test_report_at_width(width):
    text = as_text([saved(), leaf_view()], width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert_golden(f"report-{width}", text)


def test_report_in_ascii():
    text = as_text([saved(), leaf_view()], 60, "ascii")
    assert text.isascii()
    assert_golden("report-ascii", text)


def test_single_report_has_no_number_and_no_summary():
    lines = as_text([leaf_view()], 200).splitlines()
    assert lines[0].startswith("OUT102 leaf-view: w[1] (float32[]) is a leaf that requires grad, or a view of one")
    assert lines[-1] == "More: outplace explain OUT102"


def test_nothing_to_report():
    assert as_text([]) == ""


def test_render_writes_the_same_text_without_colour():
    stream = io.StringIO()
    render([saved()], Console(file=stream, width=60, color_system=None))
    assert stream.getvalue() == as_text([saved()], 60) + "\n"


def test_colours_are_few_and_mean_one_thing_each():
    stream = io.StringIO()
    render([saved()], Console(file=stream, width=100, force_terminal=True, color_system="standard", no_color=False))
    lines = stream.getvalue().splitlines()
    assert "\x1b[36m────────────\x1b[0m\x1b[36m saved here" in next(line for line in lines if "saved here" in line)
    assert "\x1b[31m^^^^^^\x1b[0m\x1b[31m overwritten here: +=" in next(line for line in lines if "here: +=" in line)
    assert "\x1b[33m~~~" in next(line for line in lines if "raised here" in line)
    assert "\x1b[32m+ \x1b[0m" in next(line for line in lines if "h = h.mul(0.9)" in line)
    assert not [line for line in lines if "\x1b[35m" in line or "\x1b[34m" in line]


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1", "TERM": "xterm"}, {"TERM": "dumb"}])
def test_no_colour_codes_where_they_are_not_wanted(environment, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = io.StringIO()
    render([saved()], Console(file=stream, force_terminal=True, width=100))
    assert "\x1b[3" not in stream.getvalue()  # NO_COLOR leaves bold and dim


def test_a_stream_that_cannot_encode_boxes_gets_ascii():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="cp1252", errors="strict")
    render([saved()], Console(file=stream, width=60))
    stream.flush()
    text = raw.getvalue().decode("cp1252")
    assert "---- saved here" in text
    assert "mul_ x12 (up to v12)" in text


def test_source_that_the_stream_cannot_encode_keeps_the_mark_aligned():
    text = marked("日本 = x.add_(1)\n", 5, 14, encoding="ascii")
    assert "  1 | ???? = x.add_(1)\n    |        ^^^^^^^^^ overwritten" in text


def test_wide_characters_are_counted_in_cells():
    source, mark = rows(marked("日本語 = x.add_(1)\n", 6, 15))
    assert source == "日本語 = x.add_(1)"
    assert mark.index("^") == cell_len("日本語 = ")
    assert mark.count("^") == len("x.add_(1)")


def test_tabs_are_expanded_under_the_mark_too():
    source, mark = rows(marked("if y:\n\tx\t= x.add_(1)\n", 5, 14, line=2))
    assert source == "    x   = x.add_(1)"
    assert mark.startswith("          ^^^^^^^^^ overwritten")


def test_combining_characters_take_no_cell():
    _, mark = rows(marked("e\u0301 = x.add_(1)\n", 5, 14))
    assert mark.startswith("    ^^^^^^^^^ ")


@pytest.mark.parametrize("width", WIDTHS)
def test_a_long_line_is_cut_around_its_mark(width):
    source = " + ".join(f"term{number}" for number in range(200))
    column = source.index("term100")
    row, mark = rows(marked(source + "\n", column, column + 7, width=width))
    assert row.startswith("…") and row.endswith("…")
    assert cell_len(row) <= width - 6
    start = mark.index("^")
    assert row[start : start + mark.count("^")] == "term100"


def test_a_long_line_marked_at_its_start_is_cut_at_its_end_only():
    row, mark = rows(marked("first" + " + x" * 100 + "\n", 0, 5, width=40))
    assert row.startswith("first") and row.endswith("…")
    assert mark == "^^^^^"


def test_a_mark_longer_than_the_width_is_cut():
    row, mark = rows(marked("x = " + "y" * 300 + "\n", 4, 304, width=60))
    assert row.endswith("…") and cell_len(row) == 54
    assert set(mark.strip()) == {"^"} and len(mark) <= 54


def test_a_mark_that_cannot_fit_keeps_the_start_of_its_line():
    row, mark = rows(marked("w = torch.ones(4, requires_grad=True)\n", 4, 37, width=40))
    assert row == "w = torch.ones(4, requires_grad=T…"
    assert mark == "    " + "^" * 30


def test_two_marks_too_far_apart_show_the_line_twice():
    source = "first" + " + x" * 100 + " + last"
    Path("code.py").write_text(source + "\n")
    one, other = (
        Mutation(f"{name}_", site(1, name, "f", "code.py"), version) for name, version in (("first", 1), ("last", 2))
    )
    text = as_text([bare(mutations=(one, other))], 60)
    assert text.count("\n  1 │ ") == 2
    assert "first_ (v0 → v1)" in text and "last_ (v1 → v2)" in text


def test_two_marks_on_one_line_share_it():
    Path("code.py").write_text("h = x.exp(); h += 1\n")
    keeps = SavedTensor("ExpBackward0", "result", 0, site(1, "x.exp()", "f", "code.py"))
    change = Mutation("__iadd__", site(1, "h += 1", "f", "code.py"), 1)
    assert (
        "  1 │ h = x.exp(); h += 1\n"
        "    │     ─────── saved here: exp keeps its result\n"
        "    │              ^^^^^^ overwritten here: += (v0 → v1)\n"
    ) in as_text([bare(saved_by=keeps, mutations=(change,))], 100)


def test_nearby_places_share_a_snippet_and_distant_ones_do_not():
    Path("code.py").write_text("".join(f"x.add_({number})\n" for number in range(1, 101)))
    changes = tuple(Mutation("add_", site(line, "x.add_", "f", "code.py"), line) for line in (10, 20, 90))
    text = as_text([bare(mutations=changes)], 100)
    assert [line for line in text.splitlines() if "code.py" in line] == ["  code.py:10 in f", "  code.py:90 in f"]
    assert "  11 │ x.add_(11)\n   ⋮\n  19 │ x.add_(19)\n" in text


def test_places_of_two_functions_are_not_mixed():
    Path("code.py").write_text("a.add_(1)\nb.add_(1)\n")
    changes = (
        Mutation("add_", site(1, "a.add_(1)", "f", "code.py"), 1),
        Mutation("add_", site(2, "b.add_(1)", "g", "code.py"), 2),
    )
    text = as_text([bare(mutations=changes)], 100)
    assert "code.py:1 in f" in text and "code.py:2 in g" in text


def test_an_expression_of_several_lines_says_where_it_ends():
    Path("code.py").write_text("y = f(\n    x,\n)\n")
    place = Site(os.path.abspath("code.py"), 1, 3, 4, 1, "<module>", "f(\n    x,\n)")
    text = as_text([bare(raised_at=place)], 100)
    assert "  1 │ y = f(\n    │     ~~ raised here: backward needs it (to line 3)\n" in text


def test_markup_in_user_text_is_printed_as_it_is():
    stream = io.StringIO()
    Path("code.py").write_text("x[bold] += 1  # [/red] :smile:\n")
    change = Mutation("__iadd__", site(1, "x[bold] += 1", "f", "code.py"), 1)
    subject = bare(tensor=Tensor("x[bold]"), why="[red]why[/red]", notes=("[/]",), mutations=(change,))
    render([subject], for_stream(stream))
    for text in ("x[bold] was overwritten", "x[bold] += 1  # [/red] :smile:", "why   [red]why[/red]", "note  [/]"):
        assert text in stream.getvalue()


def test_control_characters_never_reach_the_terminal():
    text = marked("x.add_(1)  # \x1b[31mred\x07 \x9b2J \u202egnp \x7f\r\n", 0, 9)
    assert "# ␛[31mred␇ �2J �gnp ␡" in text
    hostile = "\x1b]0;title\x07\nnext \ud800"
    fix = Fix(hostile, "safe", f"@@ -1 +1 @@\n-{hostile[:8]}\n+ok\n")
    place = Site(hostile, 1, 1, 0, 4, hostile, hostile)
    subject = Diagnosis(
        hostile, hostile, hostile, Tensor(hostile), hostile, raised_at=place, fixes=(fix,), notes=(hostile,)
    )
    text = as_text([subject, subject])
    assert not [char for char in text if char != "\n" and not char.isprintable()]
    assert text.encode()


def test_missing_evidence_is_said_not_invented():
    text = as_text(
        [bare(saved_by=SavedTensor("ExpBackward0", "result", None, None), mutations=(Mutation("x_", None),))]
    )
    assert text == (
        "OUT201 saved: a tensor was overwritten after exp kept it for backward\n\n"
        "  saved at an unknown line: exp keeps its result\n"
        "  overwritten at an unknown line: x_\n\n"
        "  saved by exp ── x_ (version unchanged) ── backward wants the old values\n\n"
        "More: outplace explain OUT201"
    )


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (Tensor("h", (4, 8), "float32"), "h (float32[4, 8]) was"),
        (Tensor("h", (), "torch.int64"), "h (int64[]) was"),
        (Tensor("h", None, None), "h was"),
        (Tensor("h", (2,), None), "h ([2]) was"),
        (Tensor(None, (2,), "int64"), "an int64[2] tensor was"),
        (Tensor(None, None, "float32"), "a float32 tensor was"),
        (Tensor(None, (2,), None), "a tensor of shape [2] was"),
        (Tensor(None), "a tensor was"),
    ],
)
def test_tensor_in_the_headline(tensor, words):
    assert as_text([bare(tensor=tensor)]).startswith(f"OUT201 saved: {words} overwritten")


def test_a_kind_that_nobody_has_words_for_shows_the_message():
    assert as_text([bare(kind="new", code="OUT999", error="\n the text \n more")]).startswith("OUT999 new: the text\n")


def test_the_recorded_text_stands_in_for_a_file_that_is_gone():
    place = Site("/gone/away.py", 7, 7, 4, 19, "main", "loss.backward()")
    text = as_text([bare(raised_at=place)], 100)
    assert "  /gone/away.py:7 in main\n  7 │ loss.backward()\n    │ ~~~~~~~~~~~~~~~ raised here" in text


def test_a_file_that_changed_since_is_not_trusted():
    Path("code.py").write_text("something_else()\n")
    place = Site(os.path.abspath("code.py"), 1, 1, 0, 15, "<module>", "loss.backward()")
    text = as_text([bare(raised_at=place)], 100)
    assert "loss.backward()" in text and "something_else" not in text


def test_no_source_at_all():
    Path("empty.py").write_text("")
    place = Site(os.path.abspath("empty.py"), 3, 3, 0, 5, "<module>", "")
    text = as_text([bare(raised_at=place)], 100)
    assert "  empty.py:3\n  3 │ (source not available)\n    │ raised here: backward needs it\n" in text


@pytest.mark.parametrize(
    ("file", "spot"),
    [("<ipython-input-3-0f1e>", "Cell In[3], line 2"), ("/tmp/ipykernel_71/123.py", "Notebook cell, line 2")],
)
def test_notebook_cells(file, spot):
    source = ["x = f()\n", "x.add_(1)\n"]
    linecache.cache[file] = (len("".join(source)), None, source, file)
    place = Site(file, 2, 2, 0, 9, "<cell line: 2>", "x.add_(1)")
    text = as_text([bare(mutations=(Mutation("add_", place, 1),))], 100)
    assert f"  {spot}\n  1 │ x = f()\n  2 │ x.add_(1)\n    │ ^^^^^^^^^ overwritten here" in text


def test_files_outside_the_working_folder_keep_their_path(tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    place = Site(str(tmp_path / "train.py"), 17, 17, 12, 23, "f", "h.mul_(0.9)")
    assert f"  {tmp_path / 'train.py'}:17 in f\n" in as_text([bare(raised_at=place)], 200)


def test_columns_beyond_the_line_underline_all_of_it():
    _, mark = rows(marked("    x.add_(1)\n", 50, 60))
    assert mark.startswith("^^^^^^^^^ overwritten")


def test_many_mutations_are_counted_not_listed():
    Path("code.py").write_text("x.add_(1)\n" * 20)
    changes = tuple(Mutation("add_", site(line, "x.add_(1)", "f", "code.py"), line) for line in range(1, 21))
    keeps = SavedTensor("ExpBackward0", "result", 0, None)
    text = as_text([bare(saved_by=keeps, mutations=changes)], 200)
    assert text.count("overwritten here") == 6
    assert "overwritten by 14 more operations, the last at code.py:20" in text
    assert "v4 add_ ── … 12 more ── v17 add_" in text


def test_other_savers_are_counted_by_line_and_capped():
    place = site(15, "h * gate")
    others = [SavedTensor("MulBackward0", "self", 0, place)] * 3
    others += [SavedTensor("ExpBackward0", "result", 0, replace(place, line=line)) for line in range(1, 8)]
    text = as_text([bare(also_saved_by=tuple(others))], 200)
    assert (
        "  also  kept by * at train.py:15 ×3, exp at train.py:1, exp at train.py:2, exp at train.py:3, "
        "exp at train.py:4 (3 more)\n"
    ) in text


def test_a_write_before_the_save_stands_before_it_in_the_timeline():
    changes = (Mutation("zero_", None, 1), Mutation("add_", None, 3))
    text = as_text([bare(saved_by=SavedTensor("ExpBackward0", "result", 2, None), mutations=changes)], 100)
    assert "  v1 zero_ ── v2 saved by exp ── v3 add_ ── backward wants v2\n" in text


def test_silent_bugs_say_that_nothing_was_raised():
    change = Mutation("mul_", site(17, "h.mul_(0.9)"), None, 3)
    subject = bare(
        kind="silent-data",
        code="OUT301",
        saved_by=SavedTensor("ExpBackward0", "result", 0, site(13, "torch.exp(x)")),
        mutations=(change,),
        raised_at=site(28, "loss.backward()", "main"),
    )
    text = as_text([subject], 100)
    assert "overwritten here: mul_ ×3, unseen by autograd" in text
    assert "used here: backward reads the changed values" in text
    assert "v0 saved by exp ── mul_ ×3 (version unchanged) ── backward reads the changed values" in text
    assert "raised" not in text


def test_a_refused_write_is_labelled_once():
    text = as_text([leaf_view()], 100)
    assert text.count("refused here") == 1
    assert "overwritten" not in text and "raised here" not in text


def test_a_diff_of_two_files_names_both_and_keeps_dashes():
    diff = "--- a/a.sql\n+++ b/a.sql\n@@ -1 +1 @@\n--- x\n+++ y\n--- a/b.py\n+++ b/b.py\n@@ -9,0 +10 @@\n+new\n"
    text = as_text([bare(fixes=(Fix("t", "safe", diff),))], 100)
    shown = text[text.index("(safe)\n") + 7 :].split("\n\n")[0]
    assert [line[8:] for line in shown.splitlines()] == ["a.sql", " 1 - -- x", " 1 + ++ y", "b.py", "10 + new"]


def test_a_long_line_of_a_fix_is_folded_not_cut():
    diff = f"@@ -1 +1 @@\n-x\n+y = {' + '.join(['term'] * 20)}\n"
    text = as_text([bare(fixes=(Fix("t", "safe", diff),))], 40)
    assert text.count("term") == 20
    assert max(map(len, text.splitlines())) <= 40


def test_text_that_is_no_diff_is_shown_as_it_stands():
    assert "        first\n        second\n" in as_text([bare(fixes=(Fix("t", "suggestion", "first\nsecond"),))])


def test_reports_do_not_import_torch():
    code = (
        "import sys, outplace.report.terminal, outplace.report.json, outplace.cli.explain, outplace.cli.rules;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@settings(max_examples=200, deadline=None)
@given(
    source=st.text(max_size=120),
    spans=st.lists(st.tuples(st.integers(-1, 5), st.integers(-2, 130), st.integers(-2, 130)), min_size=1, max_size=5),
    text=st.text(max_size=60),
    width=st.integers(24, 120),
    encoding=st.sampled_from(["utf-8", "ascii", "cp1252", "shift_jis"]),
)
def test_any_text_fits_the_width_and_the_encoding(source, spans, text, width, encoding):
    linecache.cache["<any>"] = (len(source), None, source.splitlines(keepends=True), "<any>")
    sites = [Site("<any>", line, line, start, stop, "f", text[:nth]) for nth, (line, start, stop) in enumerate(spans)]
    subject = bare(
        tensor=Tensor(text),
        why=text,
        notes=(text,),
        saved_by=SavedTensor("ExpBackward0", "result", 0, sites[0]),
        mutations=tuple(Mutation(text, place, version, 1, (place,)) for version, place in enumerate(sites, 1)),
        fixes=(Fix(text, "safe", f"@@ -1 +1 @@\n-{text}\n+{source}\n"),),
    )
    report = as_text([subject], width, encoding)
    report.encode(encoding)
    assert max(cell_len(line) for line in report.split("\n")) <= width
