"""Reports of findings: one module for each format."""

from __future__ import annotations

import importlib
import io

from outplace.checking.outcome import Result


def render(result: Result, format: str, quiet: bool = False) -> str:
    """The report in a format, without colours. `quiet` leaves out everything but the findings."""
    if format == "text":
        from outplace.report.console import for_stream
        from outplace.report.findings import text

        stream = io.StringIO()
        text.render(result, for_stream(stream), quiet)
        return stream.getvalue()
    module = importlib.import_module(f"{__name__}.{format}")
    text_of: str = module.render(result, quiet) if format == "concise" else module.render(result)
    return text_of


def statistics(result: Result, format: str) -> str:
    """How often each rule was broken, as JSON or as a table."""
    from outplace.report.findings import summary

    return summary.statistics_json(result) if format == "json" else summary.statistics_table(result)
