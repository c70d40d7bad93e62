"""Reads TOML files, with clear errors."""

from __future__ import annotations

import sys
from typing import Any

from outplace.errors import OutplaceError


def load(path: str) -> dict[str, Any]:
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
