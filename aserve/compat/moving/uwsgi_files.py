"""Reads uWSGI's configuration files: ini, xml, yaml and json.

Owns:     reading a file into options, in their order; the variables of one letter (%d), which are replaced in its text.
Thread:   any.
Spec:     uWSGI 2.0.30: core/ini.c, core/config.c, and its documentation, "Configuring uWSGI".
Not here: includes, placeholders and conditions (uwsgi_logic.py), the meaning of an option (uwsgi_table.py).
"""

from __future__ import annotations

import grp
import importlib
import json
import os
import re
import socket
import time
from collections.abc import Iterator
from typing import Any

from ...core.accounts import user_name
from ...core.json_text import TOO_DEEP, read_json
from ...settings import ConfigError
from .draft import Given
from .naming import FORMS, SECTION
from .settings import UWSGI_VERSION

MAX_FILE = 10_000_000  # characters: /dev/zero has no end. Guess: a thousand times a real file.
_SWITCHES = {True: "1", False: "0", None: "0"}  # of JSON
_MARKS = ("'", '"', "|", ">", "&", "*", "!", "[", "{")  # begin a value of YAML that is not plain
_CONFLICT = re.compile(r"(<{7}|={7}|>{7})( |\Z)")


def read_options(path: str, section: str, form: str = "") -> list[Given]:
    """
    Return the options of a section ("": uwsgi), in their order.

    Raises:
        ConfigError: the file cannot be read, or is not of its form.
    """
    section = section or SECTION
    form = form or FORMS.get(os.path.splitext(path)[1].lower(), "ini")
    try:
        text = read_text(path, "utf-8-sig")
    except (OSError, ValueError) as fault:
        why = getattr(fault, "strerror", fault)
        raise ConfigError(f"cannot read uWSGI's configuration {path}: {why}") from None
    try:
        options = list(_READERS[form](_replace_letters(text, path, section), path, section))
    except RecursionError:  # from PyYAML, and from json when it encodes the parsed value
        raise ConfigError(f"{path} is not valid {form.upper()}: {TOO_DEEP}") from None
    if not options:
        raise ConfigError(f"{path} has no section {section} with options of uWSGI's")
    return options


def read_text(path: str, encoding: str = "utf-8") -> str:
    """
    Return the text of a file.

    Raises:
        OSError: it cannot be read.
        ValueError: the file is too large, and may have no end; or the name is invalid.
    """
    with open(path, encoding=encoding, errors="surrogateescape") as file:
        text = file.read(MAX_FILE + 1)
    if len(text) > MAX_FILE:
        raise ValueError(f"it has more than {MAX_FILE:,} characters")
    return text


def _read_ini(text: str, path: str, section: str) -> Iterator[Given]:
    current = ""
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if _CONFLICT.match(line):
            raise ConfigError(f"{path}:{number}: {line[:7]} is left of a merge; decide which of both it is to be")
        if line.startswith("["):
            current = line[1:-1]
        elif line and line[0] not in "#;" and current == section:
            key, _, value = line.partition("=")
            yield Given(key.strip(), value.strip(), f"{path}:{number}")


def _read_xml(text: str, path: str, section: str) -> Iterator[Given]:
    import xml.etree.ElementTree as ElementTree  # slow, and only for XML

    try:
        root = ElementTree.fromstring(text)  # noqa: S314  # the author of the file may run any code anyway
    except ElementTree.ParseError as fault:
        raise ConfigError(f"{path} is not valid XML: {fault}") from None
    # As there: an id counts only where one is asked for, and the first element is taken.
    asked = (None, section) if section != SECTION else ()
    found = [root] if _name_of(root) == SECTION else [each for each in root if _name_of(each) == SECTION]
    for element in [each for each in found if each is root or not asked or each.get("id") in asked][:1]:
        for option in element:
            if asked and option.get("id") not in asked:
                continue
            name, value = _name_of(option), "".join(option.itertext()).strip()
            if name == "app" and "mountpoint" in option.attrib:
                name, value = "mount", f"{option.attrib['mountpoint']}={option.findtext('script', value).strip()}"
            # ElementTree keeps no line numbers.
            yield Given(name, value or "1", path)


def _name_of(element: Any) -> str:
    """Return the name of an element of XML, without its namespace."""
    return str(element.tag).rpartition("}")[2]


def _read_yaml(text: str, path: str, section: str) -> list[Given]:
    own = list(_read_lines_of_yaml(text, path, section))
    try:
        yaml: Any = importlib.import_module("yaml")
    except ImportError:
        if own and not any(given.value[:1] in _MARKS or not given.key for given in own):
            return own
        raise ConfigError(
            f"{path} is YAML, and the package PyYAML is not installed; `pip install pyyaml` would do it"
        ) from None
    try:
        # As nodes: a dict would keep one of two equal options, and no line numbers.
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        return list(_options_of_nodes(yaml, root, path, section))
    except (yaml.YAMLError, ConfigError) as fault:
        if own and own[-1].key:
            return own
        if isinstance(fault, ConfigError):
            raise
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(fault).split())}") from None


def _options_of_nodes(yaml: Any, root: Any, path: str, section: str) -> Iterator[Given]:
    for key, options in root.value if isinstance(root, yaml.MappingNode) else ():
        if key.value == section and isinstance(options, yaml.MappingNode):
            for name, value in options.value:
                for item in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    if not isinstance(item, yaml.ScalarNode):
                        raise ConfigError(f"{path}:{item.start_mark.line + 1}: {name.value}: a value was expected")
                    null = "" if item.tag.endswith(":null") else item.value
                    yield Given(name.value, null, f"{path}:{item.start_mark.line + 1}")


def _read_lines_of_yaml(text: str, path: str, section: str) -> Iterator[Given]:
    """Yield what uWSGI's own reader finds, line by line, which takes any value; an option without a name where it stops within the section."""
    is_inside = False
    for number, line in enumerate(text.split("\n"), 1):
        line = line.partition("#")[0].rstrip("\r")
        if not line.strip():
            continue
        is_deeper = line[0].isspace()
        if not is_inside:
            is_inside = not is_deeper and line.partition(":")[0] == section
        elif not is_deeper:
            return
        else:
            name, colon, value = line.partition(": " if ": " in line else ":\t")
            if not colon or name.strip()[:1] in ("-", "[", "{"):
                yield Given("", "", f"{path}:{number}")
                return
            yield Given(name.strip(), value.strip(), f"{path}:{number}")


def _read_json(text: str, path: str, section: str) -> Iterator[Given]:
    try:
        # As pairs: a dict would keep one of two equal options.
        pairs = read_json(text, object_pairs_hook=tuple)
    except ValueError as fault:
        raise ConfigError(f"{path} is not valid JSON: {fault}") from None
    for name, options in pairs if isinstance(pairs, tuple) else ():
        if name == section and isinstance(options, tuple):
            for key, value in options:
                for item in value if isinstance(value, list) else [value]:
                    if not isinstance(item, (list, tuple)):  # an object is not looked at there
                        yield Given(
                            key, _SWITCHES.get(item) or (item if isinstance(item, str) else json.dumps(item)), path
                        )


_READERS = {"ini": _read_ini, "xml": _read_xml, "yaml": _read_yaml, "json": _read_json}


def _replace_letters(text: str, path: str, section: str) -> str:
    """Replace %d and the like. As in uWSGI, an unknown letter is removed, and %% is a percent sign."""
    letters = _letters_of(path, section)
    return re.sub(r"%([^(])", lambda match: letters.get(match[1], match[0] if match[1].isspace() else ""), text)


def _letters_of(path: str, section: str) -> dict[str, str]:
    whole = os.path.abspath(path)
    folder, file_name = os.path.split(whole)
    parts = [part for part in folder.split("/") if part]
    now = time.time()
    letters = {
        "%": "%", "o": path, "p": whole, "s": file_name, "d": f"{folder.rstrip('/')}/", "v": os.getcwd(), "h": socket.gethostname(),
        "n": os.path.splitext(file_name)[0], "e": os.path.splitext(file_name)[1][1:], "c": parts[-1] if parts else "",
        "x": section, "k": str(os.cpu_count() or 1), "V": UWSGI_VERSION, "t": str(int(now)), "T": str(int(now * 1e6)), "[": "\033",
        "u": str(os.getuid()), "g": str(os.getgid()), "U": user_name(os.getuid()), "G": _name_of_group(),
        **{str(number): part for number, part in enumerate(parts[:10])},
    }  # fmt: skip
    # In uWSGI capitals refer to the first file, which includes the others; here each file has its own.
    return {**{letter.upper(): letters[letter] for letter in "opsdnecx"}, **letters}


def _name_of_group() -> str:
    try:
        return grp.getgrgid(os.getgid()).gr_name
    except KeyError:
        return str(os.getgid())
