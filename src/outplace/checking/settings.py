"""The settings of a run: the configuration and the command line together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from outplace.checking import rules
from outplace.checking.cache import FOLDER
from outplace.checking.config import Config
from outplace.checking.discovery import DEFAULT_EXCLUDES, Excluded
from outplace.checking.notebook import split_cell
from outplace.checking.patterns import Patterns
from outplace.model import Finding


@dataclass(frozen=True)
class Overrides:
    """The options that replace or extend the configuration. Patterns are relative to `folder`."""

    folder: str
    select: Sequence[str] = ()
    extend_select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    exclude: Sequence[str] = ()
    respect_gitignore: bool | None = None
    severity: str | None = None
    assume_grad: bool | None = None
    cache_dir: str | None = None
    no_cache: bool = False
    baseline: str | None = None


@dataclass(frozen=True)
class Settings:
    """The settings of this run."""

    root: str
    codes: frozenset[str]
    per_file_ignores: tuple[tuple[Patterns, frozenset[str]], ...]
    errors_only: bool
    assume_grad: bool
    excluded: Excluded
    roots: tuple[str, ...]
    cache_dir: str | None
    baseline: str | None

    def keep(self, findings: Iterable[Finding]) -> list[Finding]:
        """The findings that the settings select."""
        return [finding for finding in findings if self._is_selected(finding)]

    def _is_selected(self, finding: Finding) -> bool:
        if finding.code not in self.codes or (self.errors_only and finding.severity != "error"):
            return False
        if finding.hypothesis and not self.assume_grad:
            return False
        file = split_cell(finding.site.file)[0]
        return not any(finding.code in codes and patterns.verdict(file) for patterns, codes in self.per_file_ignores)


def resolve(config: Config, overrides: Overrides) -> Settings:
    """The settings of a run. The command line goes before the configuration."""
    cache_dir = overrides.cache_dir or (config.cache_dir and os.path.join(config.root, config.cache_dir))
    return Settings(
        root=config.root,
        codes=_codes(config, overrides),
        per_file_ignores=tuple(
            (
                Patterns.of(config.root, [pattern], "per-file-ignores"),
                frozenset().union(*map(rules.matching, names)),
            )
            for pattern, names in config.per_file_ignores.items()
        ),
        errors_only=(overrides.severity or config.severity) == "error",
        assume_grad=config.assume_grad if overrides.assume_grad is None else overrides.assume_grad,
        excluded=_excluded(config, overrides),
        roots=_roots(config),
        cache_dir=None if overrides.no_cache else os.path.abspath(cache_dir or os.path.join(config.root, FOLDER)),
        baseline=overrides.baseline or (config.baseline and os.path.join(config.root, config.baseline)),
    )


def _codes(config: Config, overrides: Overrides) -> frozenset[str]:
    """`--select` replaces the selection of the configuration. The other options extend it."""
    select = rules.require(overrides.select, "--select")
    extend = rules.require(overrides.extend_select, "--extend-select")
    ignore = rules.require(overrides.ignore, "--ignore")
    if select:
        return rules.choose([*select, *extend], ignore)
    chosen = [rules.ALL] if config.select is None else config.select
    return rules.choose([*chosen, *config.extend_select, *extend], [*config.ignore, *ignore])


def _excluded(config: Config, overrides: Overrides) -> Excluded:
    """The configuration's `exclude` replaces the default names. Everything else extends them."""
    sources = [
        (config.root, config.extend_exclude, "extend-exclude"),
        (overrides.folder, overrides.exclude, "--exclude"),
    ]
    names = DEFAULT_EXCLUDES
    if config.exclude is not None:
        names = frozenset()
        sources.append((config.root, config.exclude, "exclude"))
    patterns = tuple(Patterns.of(base, lines, origin) for base, lines, origin in sources if lines)
    respect = config.respect_gitignore if overrides.respect_gitignore is None else overrides.respect_gitignore
    return Excluded(names, patterns, respect)


def _roots(config: Config) -> tuple[str, ...]:
    """The existing folders that imports start from."""
    folders = [os.path.normpath(os.path.join(config.root, folder)) for folder in config.src]
    return tuple(folder for folder in dict.fromkeys(folders) if os.path.isdir(folder))
