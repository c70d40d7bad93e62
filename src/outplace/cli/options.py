"""Options that several commands share: files and rules of `check` and `fix`, `--color`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from outplace import settings
from outplace.checking import config as configs
from outplace.checking.config import Config
from outplace.checking.settings import Overrides
from outplace.errors import OutplaceError
from outplace.repair.facts.location import STYLES

STDIN = "-"

_F = TypeVar("_F", bound=Callable[..., Any])


def color(command: _F) -> _F:
    """Adds `--color`."""
    return click.option(
        "--color",
        type=click.Choice(settings.COLORS),
        expose_value=False,
        callback=_set_color,
        help="Use colours: always, never, or only in a terminal (auto, the default).",
    )(command)


def _set_color(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        settings.COLOR.put(value)


_Decorator = Callable[[_F], _F]


@dataclass(frozen=True)
class SourceOptions:
    """Their values."""

    paths: tuple[str, ...]
    fix: bool
    diff: bool
    unsafe_fixes: bool
    style: str
    select: tuple[str, ...]
    extend_select: tuple[str, ...]
    ignore: tuple[str, ...]
    severity: str | None
    assume_grad: bool | None
    exclude: tuple[str, ...]
    extend_exclude: tuple[str, ...]
    respect_gitignore: bool | None
    force_exclude: bool
    stdin_filename: str | None
    config: str | None
    isolated: bool
    quiet: bool
    verbose: bool

    @property
    def stdin(self) -> bool:
        """Is the source read from stdin?"""
        return STDIN in self.paths

    @property
    def start(self) -> str:
        """The folder where the search for a configuration begins."""
        return configs.common_folder([self.stdin_filename or "."] if self.stdin else self.paths or ["."])

    def configuration(self, command: str) -> Config:
        """The configuration of the command. Raises an error if options contradict each other."""
        if self.stdin and len(self.paths) > 1:
            verb = "fixed" if command == "fix" else "checked"
            raise OutplaceError(f"- (stdin) cannot be {verb} together with other paths")
        if self.stdin_filename and not self.stdin:
            raise OutplaceError(f"--stdin-filename needs the path -: outplace {command} --stdin-filename FILE -")
        if self.config and self.isolated:
            raise OutplaceError("--config and --isolated cannot be used together")
        return configs.choose([self.start], self.config, self.isolated)

    def overrides(self, **more: Any) -> Overrides:
        """What these options replace or extend in the configuration. `more`: what only one command has."""
        return Overrides(
            folder=os.getcwd(),
            select=flat(self.select),
            extend_select=flat(self.extend_select),
            ignore=flat(self.ignore),
            severity=self.severity,
            assume_grad=self.assume_grad,
            exclude=flat((*self.exclude, *self.extend_exclude)),
            respect_gitignore=self.respect_gitignore,
            **more,
        )


def many(name: str, metavar: str, text: str) -> _Decorator[_F]:
    """An option that can be repeated, and that takes several values with commas."""
    return click.option(name, multiple=True, metavar=metavar, help=text)


def flat(values: Iterable[str]) -> list[str]:
    """The single values of such an option."""
    return [item.strip() for value in values for item in value.split(",") if item.strip()]


_SOURCE: list[Callable[[Any], Any]] = [
    click.argument("paths", nargs=-1, type=click.Path(), metavar="[PATHS]..."),
    click.option("--diff", is_flag=True, help="Print the changes of the fixes and write nothing."),
    click.option(
        "--unsafe-fixes", is_flag=True, help="Also apply unsafe fixes, and fix warnings. Review these changes."
    ),
    click.option(
        "--style", type=click.Choice(STYLES), default="auto", show_default=True, help="How fixes write x[i] = v."
    ),
    many("--select", "RULES", "Use only these rules: codes, beginnings of codes (OUT2) or names. Default: all."),
    many("--extend-select", "RULES", "Rules to use in addition to the selected ones."),
    many("--ignore", "RULES", "Do not use these rules."),
    click.option(
        "--severity", type=click.Choice(configs.SEVERITIES), help="The lowest severity. `error` leaves warnings out."
    ),
    click.option(
        "--assume-grad/--no-assume-grad",
        default=None,
        help="Warn of what breaks if a function's arguments require grad. Default: on.",
    ),
    many("--exclude", "PATTERNS", "Files and folders to skip, in addition to the defaults. Patterns as in .gitignore."),
    many("--extend-exclude", "PATTERNS", "The same as --exclude."),
    click.option(
        "--respect-gitignore/--no-respect-gitignore", default=None, help="Skip files that git ignores. Default: on."
    ),
    click.option("--force-exclude", is_flag=True, help="Skip excluded files even if you name them."),
    click.option(
        "--stdin-filename", type=click.Path(), metavar="FILE", help="The file name to assume for stdin (path -)."
    ),
    click.option(
        "--config",
        type=click.Path(),
        metavar="FILE",
        help="Use this configuration file instead of the nearest pyproject.toml.",
    ),
    click.option("--isolated", is_flag=True, help="Ignore all configuration files."),
    click.option("-v", "--verbose", is_flag=True, help="Also name the functions that were too long to follow."),
    color,
]


def source_options(command: _F) -> _F:
    """Adds the options of `SourceOptions`, except `--fix` and `--quiet`."""
    for option in reversed(_SOURCE):
        command = option(command)
    return command
