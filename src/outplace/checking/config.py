"""The configuration of a project: `[tool.outplace]` in the nearest pyproject.toml."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from outplace.checking import rules
from outplace.errors import OutplaceError

FORMATS = ("text", "concise", "json", "junit", "sarif", "github", "gitlab")
SEVERITIES = ("warning", "error")


@dataclass(frozen=True)
class Config:
    """The values of the configuration. Its paths and patterns are relative to `root`, the folder of its file."""

    root: str
    select: list[str] | None = None
    extend_select: list[str] = field(default_factory=list)
    ignore: list[str] = field(default_factory=list)
    per_file_ignores: dict[str, list[str]] = field(default_factory=dict)
    exclude: list[str] | None = None
    extend_exclude: list[str] = field(default_factory=list)
    respect_gitignore: bool = True
    src: list[str] = field(default_factory=lambda: [".", "src"])
    output_format: str = "text"
    severity: str = "warning"
    assume_grad: bool = True
    baseline: str | None = None
    cache_dir: str | None = None
    file: str | None = field(default=None, compare=False)
    """The file that these values come from."""


def find(start: str) -> Config:
    """The configuration for the folder `start`; the defaults and the project's folder if there is none."""
    home = None
    for folder in upwards(start):
        path = os.path.join(folder, "pyproject.toml")
        if os.path.isfile(path):
            table = _section(load_toml(path))
            if table is not None:
                return _read(table, path, folder)
            home = home or folder
        if os.path.exists(os.path.join(folder, ".git")):
            home = home or folder
    return Config(home or os.getcwd())


def load(path: str) -> Config:
    """The configuration in a file that the user names: a pyproject.toml, or a TOML file with these keys."""
    data = load_toml(path)
    table = _section(data)
    if table is None and os.path.basename(path) == "pyproject.toml":
        raise OutplaceError(f"{path} has no section [tool.outplace]")
    return _read(data if table is None else table, path, os.path.dirname(os.path.abspath(path)))


def choose(paths: Iterable[str], file: str | None, isolated: bool) -> Config:
    """The configuration of a command: from the named file, none if `isolated`, else the nearest to its paths."""
    if isolated:
        return Config(os.getcwd())
    return load(file) if file else find(common_folder(paths))


def common_folder(paths: Iterable[str]) -> str:
    """The folder that contains all paths. Of a pattern only the part before the first wildcard counts."""
    folders = []
    for path in paths:
        whole = os.path.abspath(path)
        while not os.path.isdir(whole) and whole != os.path.dirname(whole):
            whole = os.path.dirname(whole)
        folders.append(whole)
    try:
        return os.path.commonpath(folders)
    except ValueError:  # several drives
        return os.getcwd()


def upwards(start: str) -> Iterator[str]:
    """`start` and the folders above it."""
    folder = os.path.abspath(start)
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def _section(data: dict[str, Any]) -> dict[str, Any] | None:
    tool = data.get("tool")
    section = tool.get("outplace") if isinstance(tool, dict) else None
    return section if isinstance(section, dict) else None


def _read(table: dict[str, Any], path: str, root: str) -> Config:
    values: dict[str, Any] = {}
    for key, value in table.items():
        where = f"{path}: {key}"
        reader = _KEYS.get(key)
        if reader is None:
            near = difflib.get_close_matches(key.replace("_", "-"), _KEYS, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise OutplaceError(f"{where} is not a key of [tool.outplace]; {hint}The keys are {', '.join(_KEYS)}")
        values[key.replace("-", "_")] = reader(where, value)
    return Config(root, file=os.path.abspath(path), **values)


def _strings(where: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise OutplaceError(f"{where} must be a list of strings, not {value!r}")
    return value


def _rules(where: str, value: Any) -> list[str]:
    return rules.require(_strings(where, value), where)


def _table_of_rules(where: str, value: Any) -> dict[str, list[str]]:
    if not isinstance(value, dict):
        raise OutplaceError(f"{where} must be a table from file patterns to lists of rules, not {value!r}")
    return {pattern: _rules(f"{where}.{pattern!r}", names) for pattern, names in value.items()}


def _string(where: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise OutplaceError(f"{where} must be a string, not {value!r}")
    return value


def _flag(where: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise OutplaceError(f"{where} must be true or false, not {value!r}")
    return value


def _one_of(*allowed: str) -> Callable[[str, Any], str]:
    def read(where: str, value: Any) -> str:
        if value not in allowed:
            raise OutplaceError(f"{where} must be one of {', '.join(allowed)}, not {value!r}")
        return str(value)

    return read


_KEYS: dict[str, Callable[[str, Any], Any]] = {
    "select": _rules,
    "extend-select": _rules,
    "ignore": _rules,
    "per-file-ignores": _table_of_rules,
    "exclude": _strings,
    "extend-exclude": _strings,
    "respect-gitignore": _flag,
    "src": _strings,
    "output-format": _one_of(*FORMATS),
    "severity": _one_of(*SEVERITIES),
    "assume-grad": _flag,
    "baseline": _string,
    "cache-dir": _string,
}


def load_toml(path: str) -> dict[str, Any]:
    """The contents of the file."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        with open(path, "rb") as stream:
            data: dict[str, Any] = tomllib.load(stream)
    except OSError as error:
        raise OutplaceError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OutplaceError(f"{path} is not valid TOML: {error}") from error
    return data
