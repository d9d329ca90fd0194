"""A real Prometheus, which scrapes a test's server."""

from __future__ import annotations

import contextlib
import http.client
import json
import pathlib
import re
import shutil
import subprocess
import urllib.parse
from collections.abc import Iterator
from typing import Any

from .waiting import wait_until

HAS_PROMETHEUS = shutil.which("prometheus") is not None and shutil.which("promtool") is not None
# A scrape may take as long as the interval; more than one job asks, for many samples in a short time.
CONFIG = """\
global: {{scrape_interval: 3s, scrape_timeout: 3s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
"""
JOB = '  - {{job_name: "{name}", static_configs: [{{targets: ["{target}"]}}]}}\n'
JOBS = ("a", "b", "c")


class Prometheus:
    """A running Prometheus."""

    def __init__(self, folder: pathlib.Path, target: str, rules: pathlib.Path) -> None:
        config = CONFIG.format(rules=rules) + "".join(JOB.format(name=name, target=target) for name in JOBS)
        (folder / "prometheus.yml").write_text(config)
        self._log = folder / "prometheus.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [
                    "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
                    "--web.listen-address=127.0.0.1:0",
                ],
                stdout=log, stderr=log,
            )  # fmt: skip
        try:
            found = wait_until(lambda: re.search(r'"Listening on" address=([\d.:]+)', self._log.read_text()), 60)
            self._address = found[1]
            wait_until(lambda: self.query("count(up)") or None, 60)
        except BaseException:
            self.stop()
            raise

    def query(self, expr: str) -> list[Any]:
        """Return an expression's present samples: their labels and numbers."""
        with contextlib.closing(http.client.HTTPConnection(self._address, timeout=20)) as connection:
            connection.request("GET", f"/api/v1/query?{urllib.parse.urlencode({'query': expr})}")
            response = connection.getresponse()
            text = response.read()
        if response.status == 503:  # just begun
            return []
        answer = json.loads(text)
        assert answer["status"] == "success", f"{expr}: {answer}"
        return [(sample["metric"], float(sample["value"][1])) for sample in answer["data"]["result"]]

    def wait_for_scrapes(self, count: int = 2) -> None:
        """Wait until each job has scraped `count` times more."""
        before = dict(self._scrapes())
        wait_until(lambda: all(n >= before.get(job, 0) + count for job, n in self._scrapes()), 60)

    def _scrapes(self) -> list[tuple[str, float]]:
        return [(labels["job"], n) for labels, n in self.query("count_over_time(up[1h])")]

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def running(folder: pathlib.Path, target: str, rules: pathlib.Path) -> Iterator[Prometheus]:
    """Run Prometheus within the block."""
    prometheus = Prometheus(folder, target, rules)
    try:
        yield prometheus
    finally:
        prometheus.stop()
