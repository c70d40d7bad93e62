"""The configurations of Neovim that docs/editors.md shows, in Neovim itself, where it is installed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NVIM = shutil.which("nvim")
if NVIM is None:
    pytest.skip("Neovim is not installed", allow_module_level=True)

PAGE = Path(__file__).parents[2] / "docs" / "editors.md"
BUG = """\
import torch

w = torch.ones(3, requires_grad=True)
y = w.exp()
y += 1
z = y.sigmoid()
z *= 2
z.sum().backward()
"""
# What somebody does at the keyboard: wait for the findings, take the first quick fix of line 5, save.
DRIVE = """
local told = {}
local function seen() return #vim.diagnostic.get(0) end
vim.wait(60000, function() return seen() > 0 end, 50)
told.clients = #(vim.lsp.get_clients or vim.lsp.get_active_clients)()
told.found = vim.tbl_map(function(one) return { one.lnum + 1, one.code, one.source } end, vim.diagnostic.get(0))
vim.api.nvim_win_set_cursor(0, { 5, 0 })
vim.ui.select = function(items, options, choose)
  told.offered = vim.tbl_map(options.format_item or tostring, items)
  choose(items[1], 1)
end
vim.lsp.buf.code_action()
vim.wait(60000, function() return vim.api.nvim_buf_get_lines(0, 4, 5, false)[1] ~= "y += 1" end, 50)
told.fixed = vim.api.nvim_buf_get_lines(0, 4, 5, false)[1]
vim.cmd("write")
told.saved = vim.fn.readfile("bug.py")
vim.fn.writefile({ vim.fn.json_encode(told) }, "told.json")
vim.cmd("qall!")
"""


def version():
    said = subprocess.run([NVIM, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(map(int, re.findall(r"\d+", said)[:2]))


def test_the_documented_configuration(tmp_path):
    new, old, on_save = re.findall(r"^```lua\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    (tmp_path / "init.lua").write_text((new if version() >= (0, 11) else old) + on_save)
    (tmp_path / "drive.lua").write_text(DRIVE)
    (tmp_path / "bug.py").write_text(BUG)
    (tmp_path / "pyproject.toml").touch()
    home = {name: str(tmp_path / "home") for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")}
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    command = [NVIM, "--headless", "-n", "-u", "init.lua", "bug.py", "-c", "luafile drive.lua"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **home, "PATH": path}, capture_output=True, text=True, timeout=300
    )
    told = json.loads((tmp_path / "told.json").read_text()) if (tmp_path / "told.json").exists() else done.stderr
    assert told["found"] == [[5, "OUT201", "outplace"], [7, "OUT201", "outplace"]]
    assert told["clients"] == 1
    assert [title.split(" [")[0] for title in told["offered"]] == [
        "Write `+` out of place",
        "Ignore OUT201 on this line (# noqa: OUT201)",
        "Apply all safe fixes of outplace",
    ]
    assert told["fixed"] == "y = y + 1"
    assert told["saved"] == BUG.replace("y += 1", "y = y + 1").replace("z *= 2", "z = z * 2").splitlines()
