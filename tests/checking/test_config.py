from __future__ import annotations

import os

import pytest

from outplace.checking import config, ruff_conflict
from outplace.checking.settings import Overrides, resolve
from outplace.errors import OutplaceError
from outplace.knowledge.kinds import BY_CODE


def write(folder, text, name="pyproject.toml"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return str(folder / name)


def test_the_nearest_section_counts(tmp_path):
    write(tmp_path, '[tool.outplace]\nselect = ["OUT2"]\n')
    write(tmp_path / "inner", "[project]\nname = 'x'\n")  # no section of ours: looked past
    deep = tmp_path / "inner" / "deep"
    deep.mkdir()
    found = config.find(str(deep))
    assert (found.root, found.select) == (str(tmp_path), ["OUT2"])
    write(deep, "[tool.outplace]\n")
    assert config.find(str(deep)) == config.Config(str(deep))


def test_without_a_section_the_project_is_where_its_pyproject_or_repository_is(tmp_path):
    (tmp_path / ".git").mkdir()
    inner = tmp_path / "package" / "sub"
    inner.mkdir(parents=True)
    assert config.find(str(inner)).root == str(tmp_path)
    write(tmp_path / "package", "")
    assert config.find(str(inner)).root == str(tmp_path / "package")


def test_every_key(tmp_path):
    path = write(
        tmp_path,
        """
        [tool.outplace]
        select = ["OUT2", "leaf"]
        extend-select = ["OUT301"]
        ignore = ["stepped"]
        exclude = ["old"]
        extend-exclude = ["gen/*.py"]
        respect-gitignore = false
        src = ["lib"]
        output-format = "concise"
        severity = "error"
        baseline = "known.json"
        cache-dir = "tmp/cache"
        [tool.outplace.per-file-ignores]
        "tests/*" = ["OUT2", "leaf"]
        """,
    )
    assert config.load(path) == config.Config(
        root=str(tmp_path),
        select=["OUT2", "leaf"],
        extend_select=["OUT301"],
        ignore=["stepped"],
        per_file_ignores={"tests/*": ["OUT2", "leaf"]},
        exclude=["old"],
        extend_exclude=["gen/*.py"],
        respect_gitignore=False,
        src=["lib"],
        output_format="concise",
        severity="error",
        baseline="known.json",
        cache_dir="tmp/cache",
    )


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('selct = ["OUT2"]', ["selct is not a key of [tool.outplace]", "did you mean select?", "per-file-ignores"]),
        ('extend_exclude = ["x"]', ["extend_exclude is not a key", "did you mean extend-exclude?"]),
        ("zzz = 1", ["zzz is not a key of [tool.outplace]; The keys are select,"]),
        ('select = "OUT2"', ["select must be a list of strings, not 'OUT2'"]),
        ("ignore = [1]", ["ignore must be a list of strings, not [1]"]),
        ('ignore = ["savd"]', ["ignore: no rule is called 'savd'; did you mean saved?"]),
        (
            'output-format = "xml"',
            ["output-format must be one of text, concise, json, junit, sarif, github, gitlab"],
        ),
        ("output-format = []", ["output-format must be one of text, concise"]),
        ('severity = "info"', ["severity must be one of warning, error, not 'info'"]),
        ('respect-gitignore = "yes"', ["respect-gitignore must be true or false, not 'yes'"]),
        ("baseline = 1", ["baseline must be a string, not 1"]),
        ("per-file-ignores = []", ["per-file-ignores must be a table from file patterns to lists of rules"]),
        ('per-file-ignores = {"a.py" = ["nope"]}', ["per-file-ignores.'a.py': no rule is called 'nope'"]),
        ("select = ]", ["is not valid TOML:", "line 2"]),
    ],
)
def test_mistakes_name_the_key_and_what_is_allowed(tmp_path, line, told):
    path = write(tmp_path, f"[tool.outplace]\n{line}\n")
    with pytest.raises(OutplaceError) as caught:
        config.find(str(tmp_path))
    assert caught.value.message.startswith(path)
    for part in told:
        assert part in caught.value.message


def test_a_file_of_ones_own(tmp_path):
    bare = write(tmp_path, 'select = ["saved"]\n', "outplace.toml")
    assert config.load(bare).select == ["saved"]
    sectioned = write(tmp_path, '[tool.outplace]\nselect = ["leaf"]\n', "other.toml")
    assert config.load(sectioned).select == ["leaf"]
    with pytest.raises(OutplaceError, match="has no section"):
        config.load(write(tmp_path, "[project]\n"))
    with pytest.raises(OutplaceError, match=r"cannot read .*missing.toml: no such file"):
        config.load(str(tmp_path / "missing.toml"))


def test_the_command_line_goes_before_the_configuration(tmp_path):
    settings = config.Config(str(tmp_path), select=["OUT2"], extend_select=["leaf"], ignore=["saved"])

    def codes(**given):
        return resolve(settings, Overrides(str(tmp_path), **given)).codes

    twos = {code for code in BY_CODE if code.startswith("OUT2")}
    assert codes() == twos - {"OUT201"} | {"OUT101"}
    assert codes(select=["saved"]) == {"OUT201"}  # starts afresh: the ignore of the file is gone too
    assert codes(select=["OUT2"], ignore=["stepped"]) == twos - {"OUT202"}
    assert codes(extend_select=["OUT112"]) == twos - {"OUT201"} | {"OUT101", "OUT112"}
    assert codes(ignore=["leaf"]) == twos - {"OUT201"}


def test_paths_in_the_configuration_count_from_its_folder(tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "lib").mkdir()
    monkeypatch.chdir(elsewhere)
    made = config.Config(str(tmp_path), cache_dir="c", baseline="b.json", src=["lib", "missing", "lib"])
    settings = resolve(made, Overrides(str(elsewhere)))
    assert settings.cache_dir == str(tmp_path / "c")
    assert settings.baseline == str(tmp_path / "b.json")
    assert settings.roots == (str(tmp_path / "lib"),)
    settings = resolve(made, Overrides(str(elsewhere), cache_dir="mine", baseline="mine.json"))
    assert (settings.cache_dir, settings.baseline) == (str(elsewhere / "mine"), "mine.json")
    assert resolve(made, Overrides(str(elsewhere), no_cache=True)).cache_dir is None
    assert resolve(config.Config(str(tmp_path)), Overrides(".")).cache_dir == os.path.join(tmp_path, ".outplace_cache")


class TestRuff:
    @pytest.mark.parametrize(
        ("table", "on"),
        [
            ({"lint": {"select": ["PLR6104"]}}, True),
            ({"lint": {"extend-select": ["PLR6104"]}}, True),
            ({"select": ["PLR6104"]}, True),
            ({"lint": {"select": ["non-augmented-assignment"]}}, True),
            ({"lint": {"select": ["PLR"]}}, False),  # in preview only
            ({"preview": True, "lint": {"select": ["PLR"]}}, True),
            ({"lint": {"select": ["ALL"], "preview": True}}, True),
            ({"lint": {"select": ["ALL"], "preview": True, "explicit-preview-rules": True}}, False),
            ({"lint": {"select": ["ALL"], "preview": True, "ignore": ["PLR6104"]}}, False),
            ({"lint": {"select": ["ALL"], "preview": True, "ignore": ["PL"]}}, False),
            ({"lint": {"select": ["PLR6104"], "preview": True, "ignore": ["PL"]}}, True),
            ({"lint": {"select": ["E", "F"], "preview": True}}, False),
            ({"lint": {"select": "PLR6104"}}, False),  # ruff itself refuses this
            ({"lint": []}, False),
            ({}, False),
        ],
    )
    def test_enabled(self, table, on):
        assert ruff_conflict.enabled(table) is on

    def test_the_nearest_file_counts(self, tmp_path):
        inner = tmp_path / "inner"
        path = write(tmp_path, '[tool.ruff.lint]\nselect = ["PLR6104"]\n')
        inner.mkdir()
        assert ruff_conflict.warning(str(inner)).startswith(f"{path} enables ruff's PLR6104")
        write(inner, 'lint.select = ["E"]\n', "ruff.toml")
        assert ruff_conflict.warning(str(inner)) is None
        hidden = write(inner, 'lint.select = ["PLR6104"]\n', ".ruff.toml")
        assert ruff_conflict.warning(str(inner)).startswith(hidden)

    def test_what_ruff_could_not_read_either_is_no_error_of_ours(self, tmp_path):
        write(tmp_path, "lint = [", "ruff.toml")
        assert ruff_conflict.warning(str(tmp_path)) is None
