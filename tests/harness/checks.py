"""A program: `aserve LINE --check` for each line of its input, each in its own process, all in the current folder.

Each is a fork of this process, which has imported aserve once: a hundred commands take some seconds.
"""

import json
import os
import sys
import tempfile

from aserve.command.cli import main


def check(words: list[str]) -> tuple[int, str]:
    """Return the exit status and the output of one command."""
    with tempfile.TemporaryFile("w+") as output:
        pid = os.fork()
        if not pid:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            status = 70
            try:
                status = main(words)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        _, wait_status = os.waitpid(pid, 0)
        output.seek(0)
        return wait_status >> 8 or wait_status, output.read()


if __name__ == "__main__":
    json.dump([check(words) for words in json.load(sys.stdin)], sys.stdout)
