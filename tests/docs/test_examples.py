"""What README and docs show is tried: commands with their output and exit code, Python code, settings."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml
from doc_blocks import ENGLISH, ROOT, Block, blocks, commands, hidden_files, mismatch

import forks
from outplace.checking import config
from outplace.cli.main import cli

PAGES = {page: blocks(page) for page in ENGLISH}
ALL = [block for found in PAGES.values() for block in found]
SKIPPED = ("pip install",)  # tried where an environment is made, see the test of pre-commit


def folder_for(page, made):
    """A folder with the files that the page tells its reader to save."""
    source = next((block.notes["in"] for block in PAGES[page] if "in" in block.notes), None)
    folder = made / page.stem
    if source:
        shutil.copytree(ROOT / source, folder, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        folder.mkdir()
    shown = {block.title: block.text + "\n" for block in PAGES[page] if block.title and block.language == "python"}
    for name, text in {**shown, **hidden_files(page)}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def tried(language: str) -> list[Block]:
    return [block for block in ALL if block.language == language and "not run" not in block.notes]


CONSOLE = list(dict.fromkeys(block.page for block in tried("console")))


@pytest.mark.parametrize("page", CONSOLE, ids=[str(page.relative_to(ROOT)) for page in CONSOLE])
def test_commands_do_what_is_shown(page, tmp_path):
    folder = folder_for(page, tmp_path)
    for block in tried("console"):
        for command in commands(block) if block.page == page else ():
            if command.text.startswith(SKIPPED):
                continue
            done = result_of(command.text, folder)
            told = f"{block.name}: $ {command.text}\n{done.stdout}"
            assert done.returncode == command.exit_code, told
            assert mismatch(command.expected, done.stdout) is None, told


def result_of(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What the shell makes of it. Where the shell has nothing to do, outplace is a fork, which is cheaper."""
    shown = {"COLUMNS": "100", "NO_COLOR": "1"}
    if re.fullmatch(r"outplace [^|&;<>$\\\n]*", command):
        words = shlex.split(command.partition("#")[0])[1:]
        return forks.shared().python(folder, "-m", "outplace", *words, stderr=subprocess.STDOUT, **shown)
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, **shown, "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture(scope="module")
def python_faults(tmp_path_factory):
    """The fault of each page's Python code, none where it is empty; one process for all of them."""
    made = tmp_path_factory.mktemp("python")
    pages: dict[str, dict] = {}
    for block in tried("python"):
        if block.title is None:
            name = str(block.page.relative_to(ROOT))
            if name not in pages:
                pages[name] = {"page": name, "folder": str(folder_for(block.page, made)), "blocks": []}
            pages[name]["blocks"].append([block.name, block.notes.get("setup", ""), block.text])
    command = [sys.executable, str(ROOT / "tests" / "docs" / "run_python.py")]
    done = subprocess.run(command, input=json.dumps(list(pages.values())), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(line.split("\t") for line in done.stdout.splitlines())


PYTHON = list(dict.fromkeys(block.page for block in tried("python") if block.title is None))


@pytest.mark.parametrize("page", PYTHON, ids=[str(page.relative_to(ROOT)) for page in PYTHON])
def test_python_code_runs(page, python_faults):
    assert python_faults[str(page.relative_to(ROOT))] == ""


def test_settings_can_be_read(tmp_path):
    read = {
        "json": lambda text, _: json.loads(text),
        "yaml": lambda text, _: yaml.safe_load(text),
        "toml": lambda text, path: config.load_toml(path),
    }
    for language, reader in read.items():
        for block in tried(language):
            path = tmp_path / "settings"
            path.write_text(block.text)
            assert reader(block.text, str(path)), block.name


def runs_of(value) -> list[str]:
    """The commands of a workflow."""
    if isinstance(value, dict):
        own = [value["run"]] if isinstance(value.get("run"), str) else []
        return own + [run for item in value.values() for run in runs_of(item)]
    return [run for item in value for run in runs_of(item)] if isinstance(value, list) else []


def test_commands_of_workflows(tmp_path):
    (tmp_path / "fine.py").write_text("import torch\n")
    tells = [run for block in tried("yaml") for run in runs_of(yaml.safe_load(block.text))]
    own = [run for run in tells if run.startswith("outplace ")]
    assert own
    for run in own:
        done = subprocess.run([sys.executable, "-m", *run.split()], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, f"{run}\n{done.stderr}"


def test_the_workflow_in_the_docs_is_the_example():
    (shown,) = (block for block in ALL if block.title == ".github/workflows/outplace.yml")
    assert shown.text + "\n" == (ROOT / "examples" / "github-actions" / "outplace.yml").read_text()


@pytest.mark.parametrize("page", ENGLISH, ids=[str(page.relative_to(ROOT)) for page in ENGLISH])
def test_commands_in_the_text_have_these_options(page):
    context = click.Context(cli)
    for command, rest in re.findall(r"`(?:OUTPLACE=1 )?outplace ([a-z]+)([^`\n]*)`", page.read_text("utf-8")):
        own = cli.get_command(context, command)
        assert own is not None, command
        known = {name for option in own.params for name in (*option.opts, *option.secondary_opts)}
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", rest):
            assert option in known | {"--help", "--nproc-per-node"}, f"outplace {command} {option}"


def test_what_is_not_tried_says_why_and_is_rare():
    left = [block for block in ALL if "not run" in block.notes]
    assert all(len(block.notes["not run"]) > 8 for block in left)
    tried_ones = [block for block in ALL if block.language in ("console", "python") and "not run" not in block.notes]
    assert len(left) <= len(tried_ones) / 3, [block.name for block in left]


def test_every_block_says_what_it_is():
    assert [block.name for block in ALL if not block.language and not re.search(r"[│─►▲]", block.text)] == []
    known = {"console", "python", "text", "json", "yaml", "toml", "lua", "diff", ""}
    assert {block.language for block in ALL} <= known
