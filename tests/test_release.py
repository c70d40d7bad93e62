"""What a release is made of: workflows, issue forms, the version, the wheel. All is tried as far as it can be here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from outplace.version import __version__

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(set((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")) - {ROOT / ".github/ISSUE_TEMPLATE/config.yml"})


def steps() -> list[dict]:
    jobs = [job for file in WORKFLOWS for job in yaml.safe_load(file.read_text("utf-8"))["jobs"].values()]
    return [step for job in jobs for step in job["steps"]]


def commands() -> list[str]:
    return [step["run"] for step in steps() if "run" in step]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_a_workflow_is_whole(file):
    workflow = yaml.safe_load(file.read_text("utf-8"))
    assert {"name", "permissions", "jobs"} <= set(workflow) and True in workflow  # YAML reads `on` as true
    assert workflow["permissions"] == {"contents": "read"}  # a job that needs more says so
    for name, job in workflow["jobs"].items():
        needs = job.get("needs", [])
        assert set([needs] if isinstance(needs, str) else needs) <= set(workflow["jobs"]), name
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step), step
            assert "uses" not in step or re.fullmatch(r"[\w.-]+/[\w./-]+@[\w./]+", step["uses"]), step


@pytest.mark.parametrize("schema, files", [("workflows", WORKFLOWS), ("issue-forms", FORMS)])
def test_github_would_read_it(schema, files):
    """By the schemas that come with check-jsonschema, where it is installed."""
    command = shutil.which("check-jsonschema")
    if command is None:
        pytest.skip("check-jsonschema is not installed")
    subprocess.run([command, "--builtin-schema", f"vendor.github-{schema}", *files], check=True)


def test_the_commands_are_shell_and_name_what_is_there():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for command in commands():
        subprocess.run(["bash", "-n", "-c", re.sub(r"\$\{\{.*?\}\}", "x", command)], check=True)
        assert set(re.findall(r"\bmake (\w+)", command)) <= targets
        for path in re.findall(r"\b(?:tools|tests)/[\w./]+", command):
            assert (ROOT / path).exists(), path
    assert sum("smoke_test" in command for command in commands()) == 1


@pytest.mark.parametrize("tag, passes", [(f"v{__version__}", True), ("v9.9.9", False), (__version__, True)])
def test_a_tag_must_name_the_version(tag, passes):
    (check,) = [command for command in commands() if "TAG" in command]
    done = subprocess.run(["bash", "-ec", check], cwd=ROOT, env={**os.environ, "TAG": tag})
    assert (done.returncode == 0) == passes


@pytest.mark.parametrize("file", FORMS, ids=lambda file: file.stem)
def test_issue_forms_ask_for_the_report(file):
    form = yaml.safe_load(file.read_text("utf-8"))
    names = [part["id"] for part in form["body"]]
    assert len(names) == len(set(names)) and {"report", "versions"} <= set(names)
    assert "outplace run --json report.json" in file.read_text("utf-8")


def test_an_installed_outplace_passes_the_smoke_test(tmp_path):
    done = subprocess.run([sys.executable, ROOT / "tools/smoke_test.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(rf"outplace {re.escape(__version__)} \(Python .*\) works\n", done.stdout)


def built(folder: Path, **environment: str) -> Path:
    """A wheel of this source."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_a_wheel_where_nothing_is_compiled_fits_every_machine(tmp_path):
    pytest.importorskip("hatchling")
    wheel = built(tmp_path, OUTPLACE_BUILD_PURE="1")
    assert wheel.name == f"outplace-{__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    assert not {name for name in names if name.endswith((".so", ".pyd"))}
    source = ROOT / "src"
    data = [
        path for path in (source / "outplace").rglob("*") if path.suffix in {".html", ".css", ".js", ".json", ".md"}
    ]
    assert {path.relative_to(source).as_posix() for path in data} | {"outplace.pth"} <= names


def test_a_compiled_wheel_names_the_oldest_linux_where_auditwheel_can_tell(tmp_path):
    pytest.importorskip("hatchling")
    if shutil.which("auditwheel") is None or not sys.platform.startswith("linux"):
        pytest.skip("auditwheel is not installed")
    wheel = built(tmp_path)
    if wheel.name.endswith("-any.whl"):
        pytest.skip("there is no compiler")
    assert re.search(r"-(many|musl)linux_\d+_\d+_\w+\.whl$", wheel.name)
    shown = subprocess.run(["auditwheel", "show", wheel], capture_output=True, text=True, check=True).stdout
    assert re.search(r'tag:\s*"(\w+)"', shown)[1] in wheel.name


def test_the_source_release_holds_no_packages_of_others(tmp_path):
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = opened.getnames()
    assert f"outplace-{__version__}/src/outplace/version.py" in names
    assert not [name for name in names if "node_modules" in name or name.endswith((".so", ".vsix"))]


def test_every_address_names_one_repository():
    """pyproject.toml, the pages and the extension."""
    urls = re.findall(r"https://github\.com/outplace/[\w-]+", (ROOT / "pyproject.toml").read_text())
    assert len(urls) >= 3 and set(urls) == {"https://github.com/outplace/outplace"}
    assert urls[0] in (ROOT / "editors/vscode/package.json").read_text()
    for page in ("docs/editors.md", "docs/ja/editors.md"):
        text = (ROOT / page).read_text("utf-8")
        assert f"repo: {urls[0]}\n" in text and "uses: outplace/outplace@v" in text


def test_the_version_is_written_once():
    done = subprocess.run(
        ["git", "grep", "-lF", f'"{__version__}"', "--", "src", "*.toml"], cwd=ROOT, capture_output=True
    )
    if done.returncode not in (0, 1):
        pytest.skip("no git here")
    assert done.stdout.decode().split() == ["src/outplace/version.py"]


UNIX_ONLY = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
WITHOUT_THEM = """
import importlib, os, pkgutil, sys
import torch  # itself made for the system that it is on
for name in {names!r}: sys.modules[name] = None
for name in ("fork", "register_at_fork", "getuid", "geteuid", "setsid", "killpg"):
    if hasattr(os, name): delattr(os, name)
import outplace
found = []
for module in pkgutil.walk_packages(outplace.__path__, "outplace."):
    if any(part in module.name for part in ("_native", "triton", "__main__", "pytest_plugin")): continue
    try: importlib.import_module(module.name)
    except ImportError as error: found.append((module.name, str(error)))
print([pair for pair in found if any(name in pair[1] for name in {names!r})])
"""


def test_every_module_loads_without_what_only_unix_has(tmp_path):
    """As on Windows: no fcntl, no fork."""
    pytest.importorskip("torch")
    program = WITHOUT_THEM.format(names=sorted(UNIX_ONLY))
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


# -- the GitHub Action -------------------------------------------------------------------------------------------------

ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
BUG = "import torch\nx = torch.zeros(3, requires_grad=True)\ny = x.exp()\ny += 1\ny.sum().backward()\n"


def run_action(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """The step that checks, with the inputs as GitHub hands them over."""
    given = {name: entry["default"] for name, entry in ACTION["inputs"].items()} | inputs
    step = ACTION["runs"]["steps"][-1]
    filled = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: given[m[1]], v) for name, v in step["env"].items()
    }
    environment = {**os.environ, **filled, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(["bash", "-ec", step["run"]], cwd=folder, env=environment, capture_output=True, text=True)


def test_the_action_annotates_and_writes_sarif(tmp_path):
    (tmp_path / "a.py").write_text(BUG)
    done = run_action(tmp_path)
    assert done.returncode == 1, done.stderr
    assert "::error" in done.stdout and "file=a.py" in done.stdout
    (one,) = json.loads((tmp_path / "outplace.sarif").read_text("utf-8"))["runs"][0]["results"]
    assert one["ruleId"] == "OUT201"


def test_the_action_can_let_a_job_pass(tmp_path):
    (tmp_path / "a.py").write_text(BUG)
    done = run_action(tmp_path, fail="false", **{"sarif-file": "", "paths": "a.py", "args": "--severity error"})
    assert done.returncode == 0 and "::error" in done.stdout
    assert not (tmp_path / "outplace.sarif").exists()


def test_the_action_passes_where_nothing_is_wrong(tmp_path):
    (tmp_path / "a.py").write_text(BUG.replace("y += 1", "y = y + 1"))
    assert run_action(tmp_path).returncode == 0
