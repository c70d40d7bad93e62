"""docs/check.md says what is true."""

from __future__ import annotations

import re
from pathlib import Path

from outplace.checking import config
from outplace.cli.check import check

PAGE = (Path(__file__).parents[2] / "docs" / "check.md").read_text()


def test_the_configuration_shown_is_valid_and_whole(tmp_path):
    (shown,) = (block for block in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) if "[tool.outplace]" in block)
    (tmp_path / "pyproject.toml").write_text(shown)
    loaded = config.find(str(tmp_path))
    assert loaded.per_file_ignores == {"tests/": ["OUT2"], "*_legacy.py": ["saved", "leaf"]}
    for key in config._KEYS:
        assert re.search(rf"^{key} =|{key}\]$", shown, re.MULTILINE), key


def test_the_defaults_shown_are_the_defaults():
    plain = config.Config("")
    assert 'select = ["ALL"]' in PAGE
    assert f'severity = "{plain.severity}"' in PAGE
    assert f'output-format = "{plain.output_format}"' in PAGE
    assert 'src = [".", "src"]' in PAGE
    assert plain.src == [".", "src"]


def test_options():
    real = {name for parameter in check.params for name in (*parameter.opts, *parameter.secondary_opts)}
    others = {"--help"}
    told = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE))
    assert told - real - others == set()
    long = {name for name in real if name.startswith("--")}
    assert long - told == {"--respect-gitignore", "--output-file"}  # told by --no-respect-gitignore and -o
