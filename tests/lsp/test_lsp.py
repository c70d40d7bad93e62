"""`outplace lsp` driven by a real client over stdio."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from lsp_editor import Editor, underlined
from lsprotocol import types

BUG = """\
import torch

w = torch.ones(3, 3, requires_grad=True)
y = torch.sigmoid(w @ w)
y += 1
y.sum().backward()
"""
FIXED = BUG.replace("y += 1", "y = y + 1")
LEAF = """\
import torch

w = torch.ones(3, requires_grad=True)
w += 1
"""


@pytest.fixture(scope="module")
def editor(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project with blanks")
    made = Editor(folder)
    yield made
    assert made.close() == 0


def test_a_bug_is_shown_with_the_line_that_saved(editor):
    uri = editor.open("bug.py", BUG)
    (shown,) = editor.expect(uri, "OUT201")
    assert (shown.source, shown.severity) == ("outplace", types.DiagnosticSeverity.Error)
    assert "sigmoid keeps its result" in shown.message
    assert underlined(BUG, shown.range) == "y += 1"
    (saved,) = shown.related_information
    assert (saved.location.uri, underlined(BUG, saved.location.range)) == (uri, "torch.sigmoid(w @ w)")
    editor.close_document(uri)
    editor.expect(uri)


def test_typing(editor):
    """Unsaved text counts; what does not parse changes nothing; what is mended is gone."""
    uri = editor.open("typing.py", "import torch\n")
    editor.expect(uri)
    editor.change(uri, BUG)
    editor.expect(uri, "OUT201")
    shown = editor.diagnostics.pop(uri)
    editor.change(uri, BUG + "def half(:\n")
    assert editor.actions(uri, 4) == []  # the answer comes after the check
    assert uri not in editor.diagnostics, "the findings of the last text that could be read stay"
    editor.diagnostics[uri] = shown
    editor.change(uri, FIXED)
    editor.expect(uri)


def test_columns_are_counted_in_utf_16(editor):
    line = 's = "😀日本語𠮷é"; y = w.exp(); y += 1  # 😀'
    text = f"import torch\nw = torch.ones(3, requires_grad=True)\n{line}\ny.sum().backward()\n"
    uri = editor.open("文字 😀.py", text)
    (shown,) = editor.expect(uri, "OUT201")
    assert underlined(text, shown.range) == "y += 1"
    assert shown.range.start.character == line.index("y += 1") + 2  # two letters take two units
    assert underlined(text, shown.related_information[0].location.range) == "w.exp()"
    fix, ignore = editor.actions(uri, 2, shown.range.start.character, automatic=True)
    assert editor.applied(fix) == text.replace("y += 1", "y = y + 1")
    assert editor.applied(ignore) == text.replace("# 😀", "# 😀  # noqa: OUT201")
    assert "OUT201 saved" in editor.hover(uri, 2, shown.range.end.character).contents.value


@pytest.mark.parametrize("end", ["\r\n", "\n\x0c"], ids=["windows", "form feeds"])
def test_odd_line_ends(editor, end):
    text = BUG.replace("\n", end, 3).replace("\n", "\r\n" if end == "\r\n" else "\n").replace("\r\r", "\r")
    uri = editor.open("ends.py", text)
    (shown,) = editor.expect(uri, "OUT201")
    assert underlined(text, shown.range) == "y += 1"
    fix, _ = editor.actions(uri, shown.range.start.line, automatic=True)
    assert editor.applied(fix) == text.replace("y += 1", "y = y + 1")
    editor.close_document(uri)
    editor.expect(uri)


def test_hover(editor):
    uri = editor.open("hover.py", BUG + "z = 1  # noqa: OUT301\n")
    editor.expect(uri, "OUT201")
    hover = editor.hover(uri, 4, 2)
    assert "# OUT201 saved" in hover.contents.value
    assert "sigmoid keeps its result" in hover.contents.value
    assert underlined(BUG, hover.range) == "y += 1"
    assert editor.hover(uri, 6, 17).contents.value.startswith("# OUT301 silent-data")
    assert editor.hover(uri, 0, 0) is None


def test_quick_fix_and_noqa(editor):
    uri = editor.open("actions.py", BUG)
    fix, ignore = editor.actions(uri, 4, 1, automatic=True)
    assert (fix.title, fix.kind, fix.is_preferred) == ("Write `+` out of place", types.CodeActionKind.QuickFix, True)
    assert [one.code for one in fix.diagnostics] == ["OUT201"]
    assert editor.applied(fix) == FIXED
    assert editor.applied(ignore) == BUG.replace("y += 1", "y += 1  # noqa: OUT201")
    assert editor.actions(uri, 0, automatic=True) == []
    assert [action.title for action in editor.actions(uri, 0)] == ["Apply all safe fixes of outplace"]
    editor.change(uri, editor.applied(ignore))
    editor.expect(uri)
    editor.change(uri, BUG.replace("y += 1", "y += 1  # noqa: E501 - long"))
    (*_, ignore) = editor.actions(uri, 4, 1, automatic=True)
    assert "# noqa: E501, OUT201 - long" in editor.applied(ignore)


def test_noqa_on_a_statement_of_several_lines(editor):
    text = BUG.replace("y += 1", "y[0] = \\\n    torch.tensor(\n        [1.0, 2.0, 3.0]\n    )")
    uri = editor.open("several.py", text)
    editor.expect(uri, "OUT201")
    ignore = editor.actions(uri, 4, automatic=True)[-1]
    assert "    )  # noqa: OUT201\n" in editor.applied(ignore)
    editor.change(uri, editor.applied(ignore))
    editor.expect(uri)


def test_fix_all(editor):
    text = BUG + "z = y.tanh()\nz *= 2\nz.sum().backward()\n"
    uri = editor.open("all.py", text)
    editor.expect(uri, "OUT201", "OUT201")
    for only in (["source.fixAll.outplace"], ["source.fixAll"], ["source"]):
        (action,) = editor.actions(uri, 0, only=only)
        assert action.kind == "source.fixAll.outplace"
    assert editor.applied(action) == text.replace("y += 1", "y = y + 1").replace("z *= 2", "z = z * 2")
    assert editor.actions(uri, 0, only=["source.organizeImports"]) == []
    assert editor.actions(uri, 4, only=["refactor"]) == []
    assert "source.fixAll.outplace" in editor.capabilities.code_action_provider.code_action_kinds
    editor.change(uri, editor.applied(action))
    editor.expect(uri)
    assert editor.actions(uri, 0, only=["source.fixAll"]) == []


def test_configuration_of_the_project(editor):
    folder = editor.folder / "configured"
    folder.mkdir()
    configuration = folder / "pyproject.toml"
    configuration.write_text('[tool.outplace]\nignore = ["leaf"]\nextend-exclude = ["generated/"]\n')
    leaf, saved = editor.open("configured/leaf.py", LEAF), editor.open("configured/saved.py", BUG)
    made, installed = editor.open("configured/generated/x.py", BUG), editor.open("configured/.venv/lib/x.py", BUG)
    editor.expect(saved, "OUT201")
    for quiet in (leaf, made, installed):
        editor.expect(quiet)
    configuration.write_text('[tool.outplace]\nselect = ["leaf"]\n')
    assert editor.registered == ["workspace/didChangeWatchedFiles"]
    change = types.FileEvent(configuration.as_uri(), types.FileChangeType.Changed)
    editor.tell(lambda client: client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([change])))
    editor.expect(leaf, "OUT101")
    editor.expect(saved)
    configuration.write_text("[tool.outplace]\nselekt = []\n")
    editor.change(leaf, LEAF + "\n")
    editor.change(saved, BUG + "\n")
    editor.expect(saved, "OUT201")
    assert len([message for message in editor.messages if "did you mean select" in message]) == 1


def test_the_baseline_of_the_project(editor):
    folder = editor.folder / "old code"
    folder.mkdir()
    (folder / "pyproject.toml").write_text('[tool.outplace]\nbaseline = "known.json"\n')
    known = {"file": "old.py", "code": "OUT201", "function": "<module>", "statement": "y+=1", "count": 1}
    (folder / "known.json").write_text(json.dumps({"schema": 1, "findings": [known]}))
    uri = editor.open("old code/old.py", BUG + "y *= 2\n")
    editor.expect(uri)
    both = BUG + "z = y.exp()\nz *= 2\nz.sum().backward()\n"
    editor.change(uri, both)
    (shown,) = editor.expect(uri, "OUT201")
    assert "z" in shown.message
    (folder / "known.json").unlink()
    editor.change(uri, both + "\n")
    editor.expect(uri, "OUT201", "OUT201")
    assert any("cannot read the baseline" in message for message in editor.messages)


def test_unsaved_text_of_an_imported_file(editor):
    """A program shows a bug in a module it imports, in the text that the editor has, and takes it back."""
    module = "def scale(y):\n    y = y * 2.0\n    return y\n"
    (editor.folder / "scaling.py").write_text(module)
    program = editor.open(
        "program.py",
        "import torch\nfrom scaling import scale\n\nw = torch.ones(3, requires_grad=True)\n"
        "y = w.exp()\nscale(y).sum().backward()\n",
    )
    editor.expect(program)
    changed = module.replace("y = y * 2.0", "y *= 2.0")
    helper = editor.open("scaling.py", changed)
    editor.expect(helper)
    editor.tell(
        lambda client: client.text_document_did_save(
            types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(helper))
        )
    )
    (shown,) = editor.expect(helper, "OUT201")
    assert underlined(changed, shown.range) == "y *= 2.0"
    assert shown.related_information[0].location.uri == program
    editor.close_document(program)
    editor.expect(helper)


def test_documents_that_are_no_files_of_the_workspace(editor, tmp_path):
    untitled = editor.open("untitled:Untitled-1", BUG)
    editor.expect(untitled, "OUT201")
    assert editor.applied(editor.actions(untitled, 4)[0]) == FIXED
    outside = editor.open((tmp_path / "outside.py").as_uri(), BUG)
    editor.expect(outside, "OUT201")
    empty = editor.open("empty.py", "")
    editor.expect(empty)
    assert editor.actions(empty, 0) == []
    assert editor.hover(empty, 0, 0) is None


def test_coding_lines_are_for_files_not_for_texts(editor):
    uri = editor.open("coding.py", "# -*- coding: euc-jp -*-\n# 日本語\n" + BUG)
    editor.expect(uri, "OUT201")


def test_notebooks(editor):
    notebook = (editor.folder / "book.ipynb").as_uri()
    cells = {
        "a": "%matplotlib inline\nimport torch\nw = torch.ones(3, requires_grad=True)\ny = w.exp()",
        "t": "# A title",
        "b": "y += 1\ny.sum().backward()",
    }
    addresses = {name: f"vscode-notebook-cell:{notebook[5:]}#{name}" for name in cells}
    kinds = {"t": types.NotebookCellKind.Markup}
    book = types.NotebookDocument(
        notebook,
        "jupyter-notebook",
        1,
        [types.NotebookCell(kinds.get(name, types.NotebookCellKind.Code), addresses[name]) for name in cells],
    )
    documents = [types.TextDocumentItem(addresses[name], "python", 1, text) for name, text in cells.items()]
    editor.texts |= {addresses[name]: text for name, text in cells.items()}
    editor._versions |= dict.fromkeys(addresses.values(), 1)
    editor.tell(lambda client: client.notebook_document_did_open(types.DidOpenNotebookDocumentParams(book, documents)))
    (shown,) = editor.expect(addresses["b"], "OUT201")
    assert underlined(cells["b"], shown.range) == "y += 1"
    saved = shown.related_information[0].location
    assert (saved.uri, underlined(cells["a"], saved.range)) == (addresses["a"], "w.exp()")
    assert "OUT201" in editor.hover(addresses["b"], 0, 1).contents.value
    (ignore,) = editor.actions(addresses["b"], 0, 1)
    assert editor.applied(ignore) == "y += 1  # noqa: OUT201\ny.sum().backward()"
    # Cells change in pieces: `y += 1` becomes `y = y + 1`.
    piece = types.TextDocumentContentChangePartial(types.Range(types.Position(0, 2), types.Position(0, 4)), "= y +")
    change = types.NotebookDocumentCellContentChanges(types.VersionedTextDocumentIdentifier(2, addresses["b"]), [piece])
    params = types.DidChangeNotebookDocumentParams(
        types.VersionedNotebookDocumentIdentifier(2, notebook),
        types.NotebookDocumentChangeEvent(cells=types.NotebookDocumentCellChanges(text_content=[change])),
    )
    editor.tell(lambda client: client.notebook_document_did_change(params))
    editor.expect(addresses["b"])


@pytest.mark.parametrize(("encoding", "column"), [("utf-8", 12), ("utf-32", 9)])
def test_other_units_where_the_client_wants_them(tmp_path, encoding, column):
    editor = Editor(tmp_path, [encoding])
    assert editor.capabilities.position_encoding == encoding
    text = 'import torch\nw = torch.ones(3, requires_grad=True)\ny = w.exp()\ns = "😀"; y += 1\ny.sum().backward()\n'
    (shown,) = editor.expect(editor.open("a.py", text), "OUT201")
    assert shown.range.start.character == column
    assert editor.close() == 0


def test_torch_stays_out():
    script = "import sys, outplace.lsp.server as s; s.build(); print([m for m in sys.modules if m.startswith('torch')])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_pygls(tmp_path):
    script = "import sys; sys.modules['pygls'] = None; from outplace.cli.main import main; sys.exit(main(['lsp']))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert done.stderr == "outplace: outplace lsp needs pygls: pip install 'outplace[lsp]'\n"
