"""Print docs/settings.md, made from the rows of the engine and of all features: `make docs`."""

import re

from aserve.command.pages import NAMED
from aserve.features import SETTINGS
from aserve.settings import COMMAND_NAMES

INTRODUCTION = f"""\
# Settings

<!-- Made by `make docs` from rows in aserve/settings/table.py and in aserve/features/; edit those. -->

A setting is given on the command line, in the environment, in a TOML file, or as a keyword of
`aserve.Server`, `aserve.serve`, `aserve.run` and `aserve.Config`. A flag wins over the
environment, the environment over the file, the file over the default. A name that does not
exist is an error, and so is a value that is not accepted, even where another source wins.

The TOML file is the one that `--config` names, or `[tool.aserve]` of `./pyproject.toml`:

```toml
[tool.aserve]
app = "mysite.wsgi:application"
bind = ["127.0.0.1:8000", "unix:/run/mysite.sock"]
threads = 8
max-body = "64M"
```

A text in it may have variables of the environment: `"127.0.0.1:${{env:PORT}}"`, or `"${{env:WORKERS:-4}}"`
with a default. A variable without one that is not set is an error. `$${{env:PORT}}` is that text itself.

The command itself also reads {" and ".join(f"`ASERVE_{name.upper()}`" for name in COMMAND_NAMES)}.
Sizes are in octets and may end in K, M, G or T, powers of 1024. Times are in seconds and may end
in ms, s, m or h; a server looks at its clock once a second, so shorter times last that long.
"""


def build_page() -> str:
    """Return the whole page."""
    sections, group = [INTRODUCTION], ""
    for setting in SETTINGS:
        if setting.group != group:
            group = setting.group
            sections.append(f"## {group}\n")
        sections.append(
            f"### `{f'{setting.flag} {setting.kind.metavar}'.rstrip()}`\n\n"
            f"{with_links(_sentence(setting.help))}\n\n"
            f"- default: `{setting.kind.show(setting.default)}`. {with_links(setting.why)}\n"
            f"- accepts: {with_links(setting.kind.accepts)}\n"
            f"- elsewhere: `{setting.variable}`, TOML `{setting.key}`, keyword `{setting.name}`\n"
        )
    return "\n".join(sections)


def with_links(text: str) -> str:
    """Return a text whose pages are links and whose flags are code; what is code already stays. In a terminal both stand as they are."""
    text = NAMED.sub(r"[\1.md](\1.md)", text)
    return re.sub(
        r"`[^`]*`|\[[^]]*\]\([^)]*\)|(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9](?: (?:\d+|-)(?![^\s,;.)]))?", _as_code, text
    )


def _as_code(match: "re.Match[str]") -> str:
    return f"`{match[0]}`" if match[0].startswith("--") else match[0]


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


if __name__ == "__main__":
    print(build_page(), end="")
