"""The files with which a site begins: its settings, a unit of systemd and a server of nginx.

Owns:     SiteFiles, the texts of the three.
Thread:   any; pure.
Not here: for which app, and writing them (init.py).
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator

from ..core.named_tuple import NamedTuple
from ..features import SETTINGS

WIDTH = 100
# By its key: a value of the file, and whether it stands there without a hash. The others are proposals.
PROPOSALS = {
    "bind": ('["127.0.0.1:8000"]', True),
    "threads": ("32", False),
    "workers": ('"auto"', False),
    "request-timeout": ('"30s"', False),
    "static": ('["/static={static}"]', False),
    "trusted-proxies": ('["127.0.0.1"]', False),
    "healthcheck-path": ('"/-/health"', False),
    "access-log": ('"-"', False),
    "slow-request": ('"2s"', False),
    "metrics": ('"127.0.0.1:9100"', False),
}
UNIT = """\
# Copy it to /etc/systemd/system/{name}.service, look at User=, and then:
#   systemctl daemon-reload
#   systemctl enable --now {name}.service

[Unit]
Description={name}, served by aserve
After=network.target

[Service]
Type=notify
ExecStart={command} --config {settings} --bind uwsgi://unix:/run/{name}/app.sock --control /run/{name}/control
# It loads new code if aserve.toml has `workers`; without that, restart the unit.
ExecReload=kill -HUP $MAINPID
# What the app reads from its environment, such as SECRET_KEY, one NAME=VALUE to a line:
# EnvironmentFile=/etc/{name}.env
# The folder of both sockets: nginx connects to the first, `aserve status --control /run/{name}/control` to the second.
RuntimeDirectory={name}
WorkingDirectory={folder}
User={user}
# It ends within --drain-timeout (30 s). After status 2, a mistake in the settings, it is not started again.
KillMode=mixed
TimeoutStopSec=45
Restart=on-failure
RestartSec=2
RestartPreventExitStatus=2

[Install]
WantedBy=multi-user.target
"""
NGINX = """\
# Copy it to /etc/nginx/conf.d/{name}.conf, write your own server_name, and then: nginx -t && nginx -s reload
server {{
    listen 80;
    server_name {name}.example;

    location / {{
        include uwsgi_params;
        # For an app that reads these fields: what nginx knows, and not what a client claims.
        uwsgi_param HTTP_X_FORWARDED_PROTO $scheme;
        uwsgi_param HTTP_X_FORWARDED_FOR $proxy_add_x_forwarded_for;
        uwsgi_pass unix:/run/{name}/app.sock;
    }}
}}
"""


class SiteFiles(NamedTuple):
    """What the files of a site are made from."""

    name: str  # of the unit, and of its folder in /run
    spec: str
    folder: str
    command: str  # the path of aserve
    user: str
    static: str  # the name of a folder of files

    def texts(self) -> dict[str, str]:
        """Return the files' texts by their names."""
        settings = f"{self.folder}/aserve.toml"
        unit = UNIT.format(
            name=self.name, command=_unit_word(self.command), settings=_unit_word(settings),
            folder=self.folder.replace("%", "%%"), user=self.user,
        )  # fmt: skip
        return {
            "aserve.toml": "\n".join(self._settings()),
            f"{self.name}.service": unit,
            f"{self.name}.nginx.conf": NGINX.format(name=self.name),
        }

    def _settings(self) -> Iterator[str]:
        yield f"# The settings of {self.name}. Serve it: aserve --config aserve.toml"
        yield "# A line with a hash before a name is a proposal. All settings: aserve --help; one of them: aserve config --explain threads"
        yield f"\napp = {json.dumps(self.spec)}"
        by_key = {setting.key: setting for setting in SETTINGS}
        for key, (value, is_set) in PROPOSALS.items():
            yield "\n" + textwrap.fill(by_key[key].help, WIDTH, initial_indent="# ", subsequent_indent="#   ")
            yield f"{'' if is_set else '# '}{key} = {value.format(static=self.static)}"
        yield ""


def _unit_word(text: str) -> str:
    """Return one word of a unit's command; systemd.service(5), COMMAND LINES, and systemd.unit(5), SPECIFIERS."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{text}"' if " " in text or "\\" in text else text
