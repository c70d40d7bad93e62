"""The JSON report for tools: `outplace run --json FILE`. Fields are added, never renamed."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from outplace.errors import OutplaceError
from outplace.files.naming import under_cwd
from outplace.files.writing import reason, replace_text
from outplace.model import Diagnosis, Fix, Graph, GraphEdge, GraphNode, Mutation, SavedTensor, Site, Tensor
from outplace.report.excerpts import excerpts
from outplace.report.words import rule_name
from outplace.version import __version__

SCHEMA = 1


class ReportError(OutplaceError):
    """A report could not be written."""


def report(diagnoses: Sequence[Diagnosis], torch_version: str | None) -> dict[str, Any]:
    """The whole report as plain data."""
    return {
        "schema": SCHEMA,
        "outplace": __version__,
        "torch": None if torch_version is None else str(torch_version),  # torch.__version__ is a str subclass
        "python": platform.python_version(),
        "diagnoses": [_diagnosis(diagnosis) for diagnosis in diagnoses],
        "sources": {
            under_cwd(file): {str(number): text for number, text in lines.items()}
            for file, lines in excerpts(diagnoses).items()
        },
    }


def write(path: str | os.PathLike[str], diagnoses: Sequence[Diagnosis], torch_version: str | None) -> None:
    """Write the report to `path` in one step: a reader finds the old file or the whole new one."""
    write_data(path, report(diagnoses, torch_version))


def write_data(path: str | os.PathLike[str], data: Mapping[str, Any]) -> None:
    """Write a report that is plain data already."""
    text = json.dumps(data, indent=2, ensure_ascii=True) + "\n"
    target = Path(path)
    try:
        replace_text(target, text)
    except OSError as error:
        raise ReportError(f"cannot write the report to {target}: {reason(target, error)}") from error


def _diagnosis(diagnosis: Diagnosis) -> dict[str, Any]:
    tensor = diagnosis.tensor
    return {
        "kind": diagnosis.kind,
        "code": diagnosis.code,
        "rule": rule_name(diagnosis),
        "error": diagnosis.error,
        "raised_at": _site(diagnosis.raised_at),
        "tensor": {
            "name": tensor.name,
            "shape": None if tensor.shape is None else list(tensor.shape),
            "dtype": tensor.dtype,
            "local_shape": None if tensor.local_shape is None else list(tensor.local_shape),
        },
        "saved_by": _saved(diagnosis.saved_by) if diagnosis.saved_by else None,
        "also_saved_by": [_saved(saved) for saved in diagnosis.also_saved_by],
        "mutations": [_mutation(mutation) for mutation in diagnosis.mutations],
        "made_at": _site(diagnosis.made_at),
        "kept_at": _site(diagnosis.kept_at),
        "used_at": _site(diagnosis.used_at),
        "cause": diagnosis.cause,
        "optimizer_at": _site(diagnosis.optimizer_at),
        "why": diagnosis.why,
        "fixes": [{"title": fix.title, "safety": fix.safety, "diff": fix.diff} for fix in diagnosis.fixes],
        "notes": list(diagnosis.notes),
        "graph": _graph(diagnosis.graph) if diagnosis.graph else None,
    }


def _saved(saved: SavedTensor) -> dict[str, Any]:
    return {
        "node": saved.node,
        "saved_as": saved.saved_as,
        "version": saved.version,
        "number": saved.number,
        "site": _site(saved.site),
        "chain": [_site(site) for site in saved.chain],
    }


def _mutation(mutation: Mutation) -> dict[str, Any]:
    return {
        "operation": mutation.operation,
        "version": mutation.version,
        "count": mutation.count,
        "moment": mutation.moment,
        "site": _site(mutation.site),
        "chain": [_site(site) for site in mutation.chain],
    }


def _graph(graph: Graph) -> dict[str, Any]:
    nodes = [
        {
            "node": node.node,
            "number": node.number,
            "leaf": node.leaf,
            "site": _site(node.site),
            "inputs": [{"to": edge.to, "skipped": edge.skipped} for edge in node.inputs],
        }
        for node in graph.nodes
    ]
    return {"size": graph.size, "nodes": nodes}


def _site(site: Site | None) -> dict[str, Any] | None:
    if site is None:
        return None
    return {
        "file": under_cwd(site.file),
        "line": site.line,
        "end_line": site.end_line,
        "column": site.column,
        "end_column": site.end_column,
        "function": site.function,
        "text": site.text,
    }


# -- reading it back ---------------------------------------------------------------------------------------------------


def read_diagnosis(entry: dict[str, Any]) -> Diagnosis:
    """The diagnosis that an entry of a report stands for; files are named as they are there."""
    tensor, saved = entry["tensor"], entry["saved_by"]
    return Diagnosis(
        kind=entry["kind"],
        code=entry["code"],
        error=entry["error"],
        tensor=Tensor(
            tensor["name"], _read_shape(tensor["shape"]), tensor["dtype"], _read_shape(tensor.get("local_shape"))
        ),
        why=entry["why"],
        raised_at=_read_site(entry["raised_at"]),
        saved_by=_read_saved(saved) if saved else None,
        also_saved_by=tuple(map(_read_saved, entry["also_saved_by"])),
        mutations=tuple(map(_read_mutation, entry["mutations"])),
        made_at=_read_site(entry["made_at"]),
        cause=entry.get("cause", ""),
        optimizer_at=_read_site(entry.get("optimizer_at")),
        kept_at=_read_site(entry.get("kept_at")),
        used_at=_read_site(entry.get("used_at")),
        fixes=tuple(Fix(fix["title"], fix["safety"], fix["diff"]) for fix in entry["fixes"]),
        notes=tuple(entry["notes"]),
        graph=_read_graph(entry["graph"]) if entry.get("graph") else None,
    )


def _read_saved(data: dict[str, Any]) -> SavedTensor:
    site, version = _read_site(data["site"]), data["version"]
    return SavedTensor(data["node"], data["saved_as"], version, site, data.get("number"), _read_chain(data))


def _read_mutation(data: dict[str, Any]) -> Mutation:
    site, version = _read_site(data["site"]), data["version"]
    return Mutation(data["operation"], site, version, data["count"], _read_chain(data), data.get("moment"))


def _read_chain(data: dict[str, Any]) -> tuple[Site, ...]:
    return tuple(site for part in data.get("chain", ()) if (site := _read_site(part)) is not None)


def _read_graph(data: dict[str, Any]) -> Graph:
    nodes = tuple(
        GraphNode(
            node["node"],
            node["number"],
            _read_site(node["site"]),
            tuple(GraphEdge(edge["to"], edge["skipped"]) for edge in node["inputs"]),
            node["leaf"],
        )
        for node in data["nodes"]
    )
    return Graph(nodes, data["size"])


def _read_shape(sizes: list[int] | None) -> tuple[int, ...] | None:
    return None if sizes is None else tuple(sizes)


def _read_site(data: dict[str, Any] | None) -> Site | None:
    return None if data is None else Site(**data)
