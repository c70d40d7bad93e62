"""The JSON schema of [tool.outplace] says the same as the code that reads the settings."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import jsonschema
import pytest

from outplace.checking import config
from outplace.errors import OutplaceError

SCHEMA = json.loads((Path(__file__).resolve().parents[2] / "editors" / "outplace.schema.json").read_text("utf-8"))


def test_it_is_a_schema_in_the_form_of_schemastore():
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert SCHEMA["additionalProperties"] is False
    assert all(value["description"] for value in SCHEMA["properties"].values())


def test_it_has_the_keys_and_the_defaults_of_the_settings():
    assert list(SCHEMA["properties"]) == list(config._KEYS)
    defaults = config.Config("")
    for field in dataclasses.fields(config.Config):
        key = field.name.replace("_", "-")
        if key in SCHEMA["properties"] and "default" in SCHEMA["properties"][key] and key != "select":
            assert SCHEMA["properties"][key]["default"] == getattr(defaults, field.name), key


VALUES = [
    True,
    "",
    "text",
    "gitlab",
    "warning",
    "nonsense",
    3,
    [],
    ["OUT201"],
    [3],
    {},
    {"a.py": ["OUT201"]},
    {"a.py": 1},
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("key", list(config._KEYS))
def test_it_takes_what_the_settings_take(key, value):
    try:
        config._read({key: value}, "pyproject.toml", ".")
        is_read = True
    except OutplaceError:
        is_read = False
    assert jsonschema.Draft7Validator(SCHEMA).is_valid({key: value}) == is_read


def test_a_key_that_there_is_not_is_wrong():
    assert not jsonschema.Draft7Validator(SCHEMA).is_valid({"selct": []})
