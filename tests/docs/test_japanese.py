"""What is out of date in the Japanese documentation is listed. It fails only at a release."""

from __future__ import annotations

import subprocess
import sys

import pytest
from doc_blocks import ROOT

ENGLISH = """# Title

Some words, and OUT201.

```python
x = 1  # a comment
```

| head |
|---|
| 1.5 |
"""
JAPANESE = ENGLISH.replace("Title", "題").replace("Some words, and", "いくつかの語と").replace("a comment", "コメント")


@pytest.fixture
def japanese_docs(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    import japanese_docs

    return japanese_docs


def test_a_translation_is_up_to_date(japanese_docs):
    assert list(japanese_docs.out_of_date(ENGLISH, JAPANESE)) == []


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (("x = 1", "x = 2"), "the code differs"),
        (("# 題", "## 題"), "the sections differ"),
        (("| 1.5 |\n", ""), "the tables have other rows"),
        (("OUT201", "OUT101"), "other rules are named"),
        (("1.5", "1.6"), "the figures differ"),
        (("いくつかの語", f"{'words and '.join('abcdef')}"), "a paragraph is not translated"),
    ],
)
def test_each_difference_is_found(japanese_docs, change, found):
    japanese = JAPANESE.replace(*change)
    if found == "a paragraph is not translated":
        japanese = japanese.replace("と OUT201", " and OUT201")
    assert found in list(japanese_docs.out_of_date(ENGLISH, japanese))


def test_only_a_release_fails():
    command = [sys.executable, str(ROOT / "tools" / "japanese_docs.py")]
    listed = subprocess.run(command, capture_output=True, text=True)
    assert listed.returncode == 0 and "apanese pages" in listed.stdout
    strict = subprocess.run([*command, "--release"], capture_output=True, text=True)
    assert strict.returncode == (0 if "up to date." in listed.stdout else 1)
