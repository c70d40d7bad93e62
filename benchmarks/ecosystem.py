"""What `outplace check` says of installed packages, and of mutants of them whose answer is known.

    python benchmarks/ecosystem.py PACKAGES... [--last FILE] [--json FILE] [--show]
    python benchmarks/ecosystem.py --mutants FILE... [--json FILE]

A package is the name of an installed one or the path of a folder. For each of them: lines, findings by severity and by
rule, and warnings per 20,000 lines. The code is taken to be clean, so each finding is one to look at. `--last` names
the JSON file of an earlier run, and shows which findings are new and which are gone.

A file of mutants is a JSON list. Each entry names a `package`, a `file` in it, an edit (`line`, `column`, `end_line`,
`end_column`, `after`; columns count bytes), its `operator`, the `truth` ("raises" or "passes", by PyTorch) and the
lines that write (`writes`: pairs of file and line). A raising mutant is found where a finding stands on a line that
writes. A passing one must bring no new error. With `--packages FOLDER` the packages are those of that folder.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outplace.model import Finding
from outplace.source.analysis import check_file
from outplace.source.project import Project

PER = 20_000


@dataclass
class Package:
    """One package and what was found in it."""

    name: str
    version: str
    lines: int = 0
    findings: list[str] = field(default_factory=list)
    severities: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)

    def row(self) -> str:
        """Its row of the table."""
        rate = PER * self.severities["warning"] / max(self.lines, 1)
        rules = ", ".join(f"{rule} {count}" for rule, count in sorted(self.rules.items()))
        errors, warnings = self.severities["error"], self.severities["warning"]
        return f"| {self.name} {self.version} | {self.lines:,} | {errors} | {warnings} | {rate:.2f} | {rules or '–'} |"


def main() -> None:
    """Check packages or mutants, and print their tables."""
    options = _options()
    result: dict[str, Any] = {}
    if options.packages_to_check:
        result["packages"] = _packages(options)
    for file in options.mutants:
        result.setdefault("mutants", {})[file.name] = _score(file, options.packages)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages_to_check", nargs="*", metavar="PACKAGES")
    parser.add_argument("--packages", type=Path, metavar="FOLDER", help="where packages are, if not installed")
    parser.add_argument("--mutants", type=Path, nargs="+", default=[], metavar="FILE")
    parser.add_argument("--last", type=Path, metavar="FILE", help="the JSON file of an earlier run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the findings to FILE as well")
    parser.add_argument("--show", action="store_true", help="print each finding")
    return parser.parse_args()


def _packages(options: argparse.Namespace) -> dict[str, list[str]]:
    last = json.loads(options.last.read_text())["packages"] if options.last else None
    print("| package | lines | errors | warnings | warnings per 20,000 lines | rules |\n|---|--:|--:|--:|--:|---|")
    found: dict[str, list[str]] = {}
    for name in options.packages_to_check:
        package = _checked(name, options.packages)
        found[package.name] = package.findings
        print(package.row(), flush=True)
    for name, findings in found.items():
        if options.show:
            print("\n".join(findings))
        if last is not None:
            before = Counter(last.get(name, []))
            print("".join(f"+ {line}\n" for line in (Counter(findings) - before).elements()), end="")
            print("".join(f"- {line}\n" for line in (before - Counter(findings)).elements()), end="")
    return found


def _folder(name: str, packages: Path | None) -> Path:
    if packages is not None and (packages / name).is_dir():
        return packages / name
    if Path(name).is_dir():
        return Path(name)
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"{name} is neither an installed package nor a folder")
    return Path(next(iter(spec.submodule_search_locations)))


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _checked(name: str, packages: Path | None) -> Package:
    folder, project = _folder(name, packages), Project()
    package = Package(folder.name, _version(folder.name))
    for path in sorted(folder.rglob("*.py")):
        source = path.read_text(encoding="utf-8", errors="replace")
        package.lines += source.count("\n")
        for finding in _own(path, source, project):
            where = f"{path.relative_to(folder.parent).as_posix()} in {finding.site.function}"
            package.findings.append(
                f"{finding.severity} {finding.code} {where}: {finding.site.text} ({finding.message})"
            )
            package.severities[finding.severity] += 1
            package.rules[finding.code] += 1
    return package


def _own(path: Path, source: str, project: Project) -> Iterator[Finding]:
    yield from (found for found in check_file(str(path), source, project).findings if found.site.file == str(path))


def _score(file: Path, packages: Path | None) -> dict[str, dict[str, int]]:
    """The score of one file of mutants, by operator."""
    mutants, project = json.loads(file.read_text(encoding="utf-8")), Project()
    counts: dict[str, Counter[str]] = {}
    known: dict[str, set[tuple[str, str]]] = {}
    for mutant in mutants:
        path = _folder(mutant["package"], packages).parent / mutant["file"]
        source = path.read_text(encoding="utf-8")
        if mutant["file"] not in known:
            known[mutant["file"]] = {(one.code, one.message) for one in _own(path, source, project)}
        findings = list(_own(path, _put(source, mutant), project))
        _count(counts.setdefault(mutant["operator"], Counter()), mutant, findings, known[mutant["file"]])
    print(f"\n{file.name}\n\n| operator | found | as errors | raise | pass | false errors | false warnings |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for operator, count in [*sorted(counts.items()), ("all", sum(counts.values(), Counter()))]:
        columns = ("found", "found as error", "raises", "passes", "false error", "false warning")
        print(f"| {operator} | " + " | ".join(str(count[column]) for column in columns) + " |")
    return {operator: dict(count) for operator, count in counts.items()}


def _put(source: str, mutant: dict[str, Any]) -> str:
    """The source with a mutant's edit."""
    lines = source.splitlines(keepends=True)
    first, last = mutant["line"] - 1, mutant["end_line"] - 1
    before = "".join(lines[:first]) + lines[first].encode()[: mutant["column"]].decode()
    after = lines[last].encode()[mutant["end_column"] :].decode() + "".join(lines[last + 1 :])
    return before + str(mutant["after"]) + after


def _count(count: Counter[str], mutant: dict[str, Any], findings: list[Finding], known: set[tuple[str, str]]) -> None:
    count[mutant["truth"]] += 1
    if mutant["truth"] == "raises":
        lines = {line for place, line in mutant["writes"] if place == mutant["file"]}
        here = [finding.severity for finding in findings if finding.site.line in lines]
        count["found"] += bool(here)
        count["found as error"] += "error" in here
    else:
        new = {finding.severity for finding in findings if (finding.code, finding.message) not in known}
        count["false error"] += "error" in new
        count["false warning"] += "warning" in new


if __name__ == "__main__":
    main()
