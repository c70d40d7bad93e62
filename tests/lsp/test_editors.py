"""What docs/editors.md shows for each editor: the command starts the server. The VS Code extension passes its tests."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from lsp_editor import Editor

from outplace.version import __version__

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "editors.md").read_text("utf-8")
EXTENSION = ROOT / "editors" / "vscode"
PACKAGE = json.loads((EXTENSION / "package.json").read_text("utf-8"))
BUG = "import torch\n\nw = torch.ones(3, requires_grad=True)\ny = w.exp()\ny += 1\ny.sum().backward()\n"


def block(language: str, containing: str) -> str:
    """The code block of the page that contains these words."""
    blocks = re.findall(rf"^```{language}[^\n]*\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (found,) = [text for text in blocks if containing in text]
    return found


def neovim() -> list[str]:
    return re.findall(r'"([^"]+)"', re.search(r"cmd = \{(.*)\}", block("lua", "vim.lsp.enable"))[1])


def helix() -> list[str]:
    config = tomllib.loads(block("toml", "language-server.outplace"))
    assert "outplace" in config["language"][0]["language-servers"]
    server = config["language-server"]["outplace"]
    return [server["command"], *server["args"]]


def pycharm() -> list[str]:
    return re.search(r"name `outplace`, command `([^`]+)`", PAGE)[1].split()


def emacs() -> list[str]:
    return re.findall(r'"([^"]+)"', re.search(r"\(python-mode \. \((.*?)\)", PAGE)[1])


def vs_code() -> list[str]:
    return PACKAGE["contributes"]["configuration"]["properties"]["outplace.command"]["default"]


def vs_code_in_an_environment() -> list[str]:
    command = json.loads(block("json", "outplace.command"))["outplace.command"]
    return [part.replace("${workspaceFolder}/.venv", str(Path(sys.executable).parents[1])) for part in command]


EDITORS = [neovim, helix, pycharm, emacs, vs_code, vs_code_in_an_environment]


@pytest.mark.parametrize("shown", EDITORS, ids=lambda shown: shown.__name__)
def test_the_command_starts_the_server(shown, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])
    editor = Editor(tmp_path, command=shown())
    try:
        uri = editor.open("bug.py", BUG)
        editor.expect(uri, "OUT201")
        fix = editor.actions(uri, 4)[0]
        assert editor.applied(fix) == BUG.replace("y += 1", "y = y + 1")
    finally:
        assert editor.close() == 0


def test_a_document_in_a_folder_that_is_not_on_disk_is_fixed_too(tmp_path):
    editor = Editor(tmp_path)
    try:
        uri = editor.open("not/there/bug.py", BUG)
        editor.expect(uri, "OUT201")
        assert editor.actions(uri, 4)[0].title == "Write `+` out of place"
    finally:
        editor.close()


def test_the_extension_has_the_version_of_outplace():
    assert PACKAGE["version"] == __version__, "change editors/vscode/package.json and run `npm install` there"
    lock = json.loads((EXTENSION / "package-lock.json").read_text("utf-8"))
    assert lock["version"] == lock["packages"][""]["version"] == __version__
    assert f"outplace-{__version__}.vsix" in PAGE


def test_the_lock_file_names_no_other_registry_than_the_public_one():
    lock = json.loads((EXTENSION / "package-lock.json").read_text("utf-8"))
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert all("integrity" in entry for entry in packages.values())
    addresses = {entry["resolved"] for entry in packages.values() if "resolved" in entry}
    assert not [address for address in addresses if not address.startswith("https://registry.npmjs.org/")]


def test_the_extension_passes_its_own_tests():
    """`make test` installs what they need, if it can."""
    npm = shutil.which("npm")
    if npm is None or not (EXTENSION / "node_modules").is_dir():
        pytest.skip("run `npm ci` in editors/vscode")
    environment = {**os.environ, "OUTPLACE_PYTHON": sys.executable}
    done = subprocess.run([npm, "test"], cwd=EXTENSION, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
