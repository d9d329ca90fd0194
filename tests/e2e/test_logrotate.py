"""logrotate itself, with the configuration of docs/logging.md: no line is lost, and none is in both files."""

import gzip
import pathlib
import re
import shutil
import subprocess

import pytest
from harness.client import RawClient
from harness.front import SEARCH_PATH
from harness.interpreter import NEEDS_LINUX, ONCE

LOGROTATE = shutil.which("logrotate", path=SEARCH_PATH)
PAGE = pathlib.Path(__file__).parents[2] / "docs" / "logging.md"

pytestmark = [
    ONCE,
    pytest.mark.skipif(LOGROTATE is None, reason="logrotate is not installed"),
    pytest.mark.checkout,
    pytest.mark.any_parser,
]


@pytest.fixture
def rotate(tmp_path):
    """rotate(): let logrotate do its daily work; the log is in tmp_path / "log"."""
    block = re.search(r"^```\n(/var/log/mysite/access\.log \{\n.*?)^```", PAGE.read_text(), re.M | re.S)[1]
    for ours, theirs in (("/var/log/mysite", tmp_path / "log"), ("/run/mysite/aserve.pid", tmp_path / "pid")):
        assert ours in block
        block = block.replace(ours, str(theirs))
    (tmp_path / "log").mkdir(mode=0o755)  # logrotate wants nobody else to write there
    config = tmp_path / "logrotate.conf"
    config.write_text(block)
    config.chmod(0o644)

    def run():
        done = subprocess.run(
            [LOGROTATE, "--force", "--state", str(tmp_path / "state"), str(config)],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    return run


@pytest.mark.parametrize(
    "flags",
    [
        (),
        pytest.param(("--workers", "2"), marks=NEEDS_LINUX),
    ],
    ids=["alone", "workers"],
)
def test_each_line_is_in_its_days_file(start_process, rotate, tmp_path, wait_until, flags):
    """Each line is in the file of its day; the old file stays unchanged, and is compressed on the next day."""
    path = tmp_path / "log" / "access.log"
    process = start_process(
        "steered", "--access-log", str(path), "--pid-file", str(tmp_path / "pid"), "--threads", "1", *flags
    )  # fmt: skip
    count = 2 if flags else 1
    if flags:
        wait_until(lambda: process.log.count(" is ready") == 2)
    for day in range(3):
        client = RawClient(process.address)
        for number in range(20):
            assert client.fetch(f"/day-{day}-{number}").status == 200
        client.close()
        if day < 2:
            rotate()
            wait_until(lambda day=day: process.log.count("was reopened") == count * (day + 1))
    process.signal()
    assert process.wait() == 0
    texts = [
        gzip.decompress(path.with_name("access.log.2.gz").read_bytes()).decode(),
        path.with_name("access.log.1").read_text(), path.read_text(),
    ]  # fmt: skip
    found = [re.findall(r"GET /day-(\d+)-(\d+) ", text) for text in texts]
    all_lines = [(str(day), str(number)) for day in range(3) for number in range(20)]
    assert sorted([*found[0], *found[1], *found[2]]) == sorted(all_lines)
    for day, lines in enumerate(found):
        # Clients have their responses before the line: the last line of each worker's one thread may come after the exchange of files.
        assert len(lines) >= 20 - count and len([each for each, _ in lines if each != str(day)]) <= count
