"""Calls a function right after a module is imported, by whatever import, and leaves no trace on the module."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from outplace.runtime.patches import caller_frames

_awaited: dict[str, _Awaited] = {}


def then(name: str, act: Callable[[], None]) -> Callable[[], None]:
    """Calls `act` when the module has been imported. Returns a function that stops waiting.

    Looking a module up (`importlib.util.find_spec`) is not an import.
    """
    if name not in _awaited:
        _awaited[name] = _Awaited(name)
        sys.meta_path.insert(0, _awaited[name])
    finder = _awaited[name]
    finder.acts.append(act)

    def stop() -> None:
        if act in finder.acts:
            finder.acts.remove(act)
        if not finder.acts and _awaited.get(name) is finder:
            _forget(name)

    return stop


def _forget(name: str) -> None:
    """Stops waiting for this module."""
    finder = _awaited.pop(name, None)
    if finder in sys.meta_path:
        sys.meta_path.remove(finder)


class _Awaited(importlib.abc.MetaPathFinder):
    def __init__(self, name: str) -> None:
        self._name = name
        self.acts: list[Callable[[], None]] = []

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._name:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self and hasattr(finder, "find_spec") else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _ThenAct(spec.loader, name, self.acts)
                return spec
        return None


class _ThenAct(importlib.abc.Loader):
    def __init__(self, loader: Any, name: str, acts: list[Callable[[], None]]) -> None:
        self._loader, self._name, self._acts = loader, name, acts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        try:
            self._loader.exec_module(module)
        except BaseException as error:
            caller_frames.trim(error)
            raise
        _forget(self._name)
        for act in list(self._acts):
            act()
