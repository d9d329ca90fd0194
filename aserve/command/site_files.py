"""The files with which a site begins: its settings, a unit of systemd and a server of nginx.

Owns:     SiteFiles, the texts of the three; SERVICE and SANDBOX, which all units of docs/ and examples/ share.
Thread:   any; pure, but for links in paths.
Not here: for which app, and writing them (init.py).
"""

from __future__ import annotations

import json
import os
import shlex
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
# In the place of the address: a public site.
PUBLIC = {"https": ('["{https}"]', True), "acme-terms": ('"accept"', True), "workers": ("1", True)}
# What each unit has: that of `aserve init`, and those of examples/ and docs/. The way out is bounded, the way back is not.
SERVICE = """\
# Only the process itself is told to end, not what the app has started. It takes at most --drain-timeout (30 s).
KillMode=mixed
TimeoutStopSec=45
# After a crash, when the app cannot be imported (its database may come later), and when the watchdog has heard nothing: the event loop
# hangs, or every thread does while requests wait. Status 2 is a mistake in the settings, which will not mend itself.
Restart=on-failure
RestartSec=2
RestartPreventExitStatus=2
WatchdogSec=60
"""
SANDBOX = """\
# What aserve can do without, and most apps. `systemd-analyze security` explains each line.
LockPersonality=yes
NoNewPrivileges=yes
PrivateDevices=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProtectSystem=strict
RemoveIPC=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
SystemCallFilter=@system-service
"""
UNIT = """\
# Look at User=, and then, as root:
#   {enable}

[Unit]
Description={name}, served by aserve
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=notify
ExecStart={command} --config {settings}{bind}
# It loads new code if aserve.toml has `workers`; without that, restart the unit.
ExecReload=kill -HUP $MAINPID
# What the app reads from its environment, such as SECRET_KEY, one NAME=VALUE to a line:
# EnvironmentFile=/etc/{name}.env
# In the first are the sockets, for nginx and for `aserve status`; in the second, /var/lib/{name}, certificates and what the app keeps.
RuntimeDirectory=aserve/{name}
StateDirectory={name}
WorkingDirectory={folder}
User={user}

{service}
{sandbox}ProtectHome={home}
ReadWritePaths={writable}
{capabilities}

[Install]
WantedBy=multi-user.target
"""
PORTS = (
    "AmbientCapabilities=CAP_NET_BIND_SERVICE\nCapabilityBoundingSet=CAP_NET_BIND_SERVICE"  # 443 and 80, without root
)
HOMES = ("/home/", "/root/", "/run/user/")
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
        uwsgi_pass unix:/run/aserve/{name}/app.sock;
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
    https: str = ""  # the name of a public site; "": nginx stands in front
    is_roots: bool = True  # whether the folder belongs to root

    def texts(self) -> dict[str, str]:
        """Return the files' texts by their names."""
        folder, settings = self.folder.replace("%", "%%"), f"{self.folder}/aserve.toml"
        is_in_home = any(f"{os.path.realpath(path)}/".startswith(HOMES) for path in (self.folder, self.command))
        unit = UNIT.format(
            name=self.name, command=_unit_word(self.command), settings=_unit_word(settings), folder=folder, user=self.user,
            bind="" if self.https else f" --bind uwsgi://unix:/run/aserve/{self.name}/app.sock", enable=self.enable(), service=SERVICE, sandbox=SANDBOX,
            home="read-only" if is_in_home else "yes", writable=f'"{folder}"' if " " in folder else folder,
            capabilities=PORTS if self.https else "CapabilityBoundingSet=",
        )  # fmt: skip
        texts = {"aserve.toml": "\n".join(self._settings()), f"{self.name}.service": unit}
        return texts if self.https else {**texts, f"{self.name}.nginx.conf": NGINX.format(name=self.name)}

    def enable(self) -> str:
        """Return the command that starts the unit; a user who can write to the unit's folder must not change what root's systemd reads."""
        path = shlex.quote(f"{self.folder}/{self.name}.service")
        if self.is_roots:
            return f"systemctl enable --now {path}"
        return f"cp {path} /etc/systemd/system/ && systemctl enable --now {self.name}.service"

    def _settings(self) -> Iterator[str]:
        yield f"# The settings of {self.name}. Serve it: aserve --config aserve.toml"
        yield "# A line with a hash before a name is a proposal. All settings: aserve --help; one of them: aserve config --explain threads"
        yield f"\napp = {json.dumps(self.spec)}"
        by_key = {setting.key: setting for setting in SETTINGS}
        others = {key: row for key, row in PROPOSALS.items() if key not in (*PUBLIC, "bind", "trusted-proxies")}
        for key, (value, is_set) in ({**PUBLIC, **others} if self.https else PROPOSALS).items():
            yield "\n" + textwrap.fill(by_key[key].help, WIDTH, initial_indent="# ", subsequent_indent="#   ")
            yield f"{'' if is_set else '# '}{key} = {value.format(static=self.static, https=self.https)}"
        yield ""


def _unit_word(text: str) -> str:
    """Return one word of a unit's command; systemd.service(5), COMMAND LINES, and systemd.unit(5), SPECIFIERS."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{text}"' if " " in text or "\\" in text else text
