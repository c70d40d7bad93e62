"""Replaces a file in one step: a reader sees the old content or the whole new one."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path


def replace_text(target: Path, text: str) -> None:
    """Writes `text` to `target`. If that fails, the old file stays."""
    if target.exists() and not target.is_file():  # /dev/stdout, a named pipe: nothing to replace
        target.write_text(text, encoding="utf-8")
        return
    final = Path(os.path.realpath(target))  # keep a symbolic link
    scratch = final.with_name(f".{final.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(scratch, "x", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(scratch, final)
    except BaseException:
        with contextlib.suppress(OSError):
            scratch.unlink()
        raise


def reason(target: Path, error: OSError) -> str:
    """Why the file could not be written."""
    if not target.parent.is_dir():
        return f"there is no folder {target.parent}"
    if target.is_dir():
        return "it is a folder"
    return (error.strerror or str(error)).lower()
