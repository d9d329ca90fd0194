"""The balancers in front of a cluster's hosts, with the configurations of docs/balancers.md and examples/: their commands, and their logs' words on
requests. Addresses are changed; where a test waits for a time-out, the time, too.
"""

import pathlib
import re
import sys
from collections.abc import Mapping
from typing import NamedTuple

from .front import NGINX, Page, _nginx_folder, replaced

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
PORT = 80


class Sent(NamedTuple):
    """A balancer's log of a request: the tried hosts, and the number of retries."""

    hosts: tuple[str, ...]
    again: int


class Balancer:
    """A balancer of HTTP. `hosts` are addresses by names; `changes` are of the configuration."""

    program = "haproxy"
    conf = "conf"  # the name of its file
    _port = 8000  # of the hosts

    def __init__(
        self, hosts: Mapping[str, str], address: str, folder: pathlib.Path, changes: Mapping[str, str]
    ) -> None:
        self._hosts, self._address, self._folder, self._changes = hosts, address, folder, dict(changes)
        self._names = {f"{address}:{self._port}": name for name, address in hosts.items()}
        self.log_path = folder / "log"

    @property
    def admin(self) -> str:
        """The socket for its own commands."""
        return str(self._folder / "admin")

    def command(self) -> list[str]:
        """Write the configuration; return the command in the foreground."""
        path = self._folder / self.conf
        path.write_text(replaced(self._config(), self._changes))
        return self._command(str(path))

    def sent(self) -> dict[str, Sent]:
        """Return the log's words, by the names of requests."""
        text = self.log_path.read_text(errors="replace")
        found = re.finditer(r"ask /\w+\?([\w-]+) (.*)", text)
        return {match[1]: self._sent(match[2]) for match in found}

    def _command(self, path: str) -> list[str]:
        return ["haproxy", "-db", "-f", path]

    def _config(self) -> str:
        text = (EXAMPLES / "haproxy/haproxy.cfg").read_text()
        servers = "".join(f"    server {name} {address}:8000\n" for name, address in self._hosts.items())
        return replaced(
            text,
            {
                "raw daemon\n": f"raw daemon\n    stats socket {self.admin} level admin\n",
                "bind :80\n": f'bind {self._address}:{PORT}\n    log-format "ask %HU %s %rc"\n',
                "    server one 10.0.0.1:8000\n    server two 10.0.0.2:8000\n": servers,
            },
        )

    def _sent(self, text: str) -> Sent:
        host, again = text.split()[:2]
        return Sent((host,), int(again.strip("+")))


class ByConnection(Balancer):
    """HAProxy as a network's balancer: a client's connection goes to one host, and no request is seen. So it logs none."""

    def _config(self) -> str:
        text = super()._config()
        for line in re.findall(r" *(?:log-format|retry-on|http-request) .*\n", text):
            text = text.replace(line, "")
        return replaced(text, {"mode http\n": "mode tcp\n"})


class Nginx(Balancer):
    """nginx, with HTTP to the hosts."""

    program = "nginx"

    def _command(self, path: str) -> list[str]:
        return ["nginx", "-e", "stderr", "-c", path]

    def _config(self) -> str:
        block = self._block()
        servers = re.findall(r"    server 10\.0\.0\..*\n", block)
        rest = servers[0].partition(":8000")[2]
        changes = {
            "".join(servers): "".join(f"    server {address}{rest}" for address in self._names),
            "next_upstream_tries 2;": f"next_upstream_tries {len(self._hosts)};",
            "listen 80;": f"listen {self._address}:{PORT};\n    access_log {self._folder}/log ask;",
        }
        form = "log_format ask 'ask $request_uri $upstream_addr';\n"
        return NGINX.format(folder=self._folder, user="user root;", block=form + replaced(block, changes))

    def _block(self) -> str:
        return Page("balancers").block("nginx", "nginx")

    def _sent(self, text: str) -> Sent:
        hosts = tuple(self._names.get(word.strip(","), word) for word in text.split())
        return Sent(hosts, len(hosts) - 1)


class NginxUwsgi(Nginx):
    """nginx, with uwsgi to the hosts."""

    _port = 8001

    def _block(self) -> str:
        text = super()._block()
        for line in re.findall(r".*(?:proxy_http_version|proxy_set_header|keepalive).*\n", text):
            text = text.replace(line, "")
        changes = {"proxy_pass http://app;": f"include {_nginx_folder()}/uwsgi_params;\n        uwsgi_pass app;"}
        return replaced(text, changes).replace("proxy_", "uwsgi_")


class Caddy(Balancer):
    """Caddy, whose log does not tell the tried hosts."""

    program = "caddy"

    def _command(self, path: str) -> list[str]:
        home = f"XDG_CONFIG_HOME={self._folder}"  # keeps its own start there
        return ["env", home, "caddy", "run", "--adapter", "caddyfile", "--config", path]

    def _config(self) -> str:
        servers = " ".join(f"{address}:8000" for address in self._hosts.values())
        changes = {
            "10.0.0.1:8000 10.0.0.2:8000": servers,
            "health_uri /-/health/ready": "health_uri /ready\n        health_port 9100",
        }
        block = replaced(Page("balancers").block("Caddy", "caddyfile"), changes)
        return f"{{\n    admin off\n    auto_https off\n    default_bind {self._address}\n}}\n{block}"


class Envoy(Balancer):
    """Envoy, from a wheel of Python's package index."""

    program = str(pathlib.Path(sys.executable).with_name("envoy"))  # the extra `cluster` has it
    conf = "conf.yaml"

    def _command(self, path: str) -> list[str]:
        # Its memory of itself is not for a second Envoy on this machine.
        return [
            self.program,
            "--disable-hot-restart",
            "--concurrency",
            "1",
            "--file-flush-interval-msec",
            "100",
            "--log-level",
            "warning",
            "--config-path",
            path,
        ]

    def _config(self) -> str:
        block = Page("balancers").block("Envoy", "yaml")
        [_, line] = servers = [f"{line}\n" for line in block.splitlines() if "10.0.0." in line]
        log = f"""\
          access_log:
          - name: file
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
              path: {self.log_path}
              log_format:
                text_format_source:
                  inline_string: "ask %REQ(:PATH)% %UPSTREAM_HOST% %UPSTREAM_REQUEST_ATTEMPT_COUNT%\\n"
"""
        changes = {
            "".join(servers): "".join(line.replace("10.0.0.2", address) for address in self._hosts.values()),
            "address: 0.0.0.0": f"address: {self._address}",
            "          http_filters:\n": f"{log}          http_filters:\n",
        }
        return replaced(block, changes)

    def _sent(self, text: str) -> Sent:
        host, tries = text.split()[:2]
        return Sent((self._names.get(host, host),), max(0, int(tries) - 1))


BALANCERS: dict[str, type[Balancer]] = {
    "HAProxy": Balancer,
    "HAProxy, tcp": ByConnection,
    "nginx": Nginx,
    "nginx, uwsgi": NginxUwsgi,
    "Caddy": Caddy,
    "Envoy": Envoy,
}
