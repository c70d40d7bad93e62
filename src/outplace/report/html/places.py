"""Names for the places of a diagnosis, by which the graph, the timeline and the source point at each other."""

from __future__ import annotations

from outplace.model import Site


class Places:
    """One diagnosis' own: each line of source has one name, whoever points at it."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._names: dict[tuple[str, int], str] = {}

    def name(self, site: Site) -> str:
        """The name of the line that a site begins in."""
        return self._names.setdefault((site.file, site.line), f"{self._prefix}-at{len(self._names) + 1}")
