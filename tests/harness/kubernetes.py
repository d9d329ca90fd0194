"""Kubernetes' API as data classes: the allowed and required fields of a manifest.

The classes are lightkube-models', made from Kubernetes' own OpenAPI. They import a client that we do not need, and that does not run on all our
interpreters: so its three names are ours here.
"""

import dataclasses
import importlib
import sys
import types
import typing
from typing import Any

import pytest


def _models(api_version: str) -> Any:
    """Return the module of an API's version: apps_v1 of apps/v1, core_v1 of v1."""
    stub = types.ModuleType("lightkube.core.schema")
    vars(stub).update(dataclass=dataclasses.dataclass, field=dataclasses.field, DictMixin=object)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, stub.__name__, stub)
        group, _, version = api_version.rpartition("/")
        return importlib.import_module(f"lightkube.models.{group.partition('.')[0] or 'core'}_{version}")


def check_manifest(manifest: dict[str, Any]) -> None:
    """Assert that the API has this kind, each field with a value of its type, and that none is missing."""
    kind = getattr(_models(manifest["apiVersion"]), manifest["kind"])
    _check(manifest, kind, manifest["kind"])


def _check(value: Any, hint: Any, where: str) -> None:
    options = [option for option in typing.get_args(hint) if option is not type(None)]
    origin = typing.get_origin(hint)
    if origin is typing.Union:
        if len(options) == 1:
            _check(value, options[0], where)
        else:
            assert type(value) in options, f"{where}: {value!r} is not one of {options}"
    elif origin is list:
        assert type(value) is list, f"{where}: {value!r} is not a list"
        for number, item in enumerate(value):
            _check(item, options[0], f"{where}[{number}]")
    elif hint is dict:  # labels, annotations, quantities
        assert type(value) is dict, f"{where}: {value!r} is not an object"
        for name, item in value.items():
            _check(item, str, f"{where}.{name}")
    elif dataclasses.is_dataclass(hint):
        _check_object(value, hint, where)
    else:
        assert type(value) is hint, f"{where}: {value!r} is no {hint}"


def _check_object(value: Any, kind: Any, where: str) -> None:
    assert type(value) is dict, f"{where}: {value!r} is not an object"
    hints = typing.get_type_hints(kind)
    fields = {field.metadata.get("json", field.name): field for field in dataclasses.fields(kind)}
    unknown = {*value} - {*fields}
    assert not unknown, f"{where}: {kind.__name__} has no {sorted(unknown)}"
    missing = {name for name, field in fields.items() if field.default is dataclasses.MISSING} - {*value}
    assert not missing, f"{where}: {kind.__name__} must have {sorted(missing)}"
    for name, item in value.items():
        _check(item, hints[fields[name].name], f"{where}.{name}")
