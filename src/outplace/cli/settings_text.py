"""`outplace check --show-settings`: the settings in use, in the form of the configuration file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from outplace.checking.config import Config
from outplace.checking.settings import Overrides, Settings
from outplace.files.naming import under_cwd
from outplace.knowledge.kinds import KINDS


def text(config: Config, overrides: Overrides, settings: Settings, output_format: str) -> str:
    """The settings as TOML, with comments on where they come from."""
    return "".join(f"{line}\n" for line in _lines(config, overrides, settings, output_format))


def _lines(config: Config, overrides: Overrides, settings: Settings, output_format: str) -> Iterator[str]:
    yield f"# configuration file: {under_cwd(config.file) if config.file else 'none'}"
    yield f"# project folder: {settings.root}"
    off = [kind.code for kind in KINDS if kind.code not in settings.codes]
    yield f"# rules: {len(KINDS) - len(off)} of {len(KINDS)}"
    yield ""
    yield "[tool.outplace]"
    if len(off) * 2 < len(KINDS):
        yield 'select = ["ALL"]'
        yield f"ignore = {_list(off)}"
    else:
        yield f"select = {_list(sorted(settings.codes))}"
        yield "ignore = []"
    yield f"severity = {json.dumps('error' if settings.errors_only else 'warning')}"
    yield f"assume-grad = {json.dumps(settings.assume_grad)}"
    yield f"exclude = {_list(sorted(settings.excluded.names) if config.exclude is None else config.exclude)}"
    yield f"extend-exclude = {_list([*config.extend_exclude, *overrides.exclude])}"
    yield f"respect-gitignore = {json.dumps(settings.excluded.gitignore)}"
    yield f"src = {_list(settings.roots)}"
    yield f"output-format = {json.dumps(output_format)}"
    yield f"baseline = {json.dumps(settings.baseline)}" if settings.baseline else "# no baseline"
    yield f"cache-dir = {json.dumps(settings.cache_dir)}" if settings.cache_dir else "# no cache"
    if config.per_file_ignores:
        yield ""
        yield "[tool.outplace.per-file-ignores]"
        yield from (f"{json.dumps(pattern)} = {_list(rules)}" for pattern, rules in config.per_file_ignores.items())


def _list(values: Iterable[str]) -> str:
    """A list in TOML: on one line if it is short."""
    items = [json.dumps(value, ensure_ascii=False) for value in values]
    short = f"[{', '.join(items)}]"
    if len(short) <= 80:
        return short
    return "[\n" + "".join(f"    {item},\n" for item in items) + "]"
