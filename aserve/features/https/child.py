"""A short-lived child process that works with keys and talks to the authority.

Owns:     OrderProcess: the start, the job as JSON, the result as JSON, the end.
Thread:   any; `wait` blocks.
Not here: the work (program.py).

The libraries take 25 MB, and are needed some seconds a month: so no worker ever loads them, and their work does not hold a worker's GIL.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from .folder import FileOwner

# An authority may take a minute to come, and another to sign.
MAX_SECONDS = 300
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
# The folder of this package is the last argument, and becomes the first to import from unless Python looks there anyway.
CODE = (
    "import sys; root = sys.argv.pop(); root in sys.path or sys.path.insert(0, root); "
    "from aserve.features.https.program import main; main()"
)


class ChildError(Exception):
    """The child could not do the job, without a fault of an authority: the text has the reason."""


class OrderProcess:
    def __init__(self, job: Mapping[str, Any], keep: Sequence[int] = (), owner: FileOwner | None = None) -> None:
        """
        Start the child. `keep`: descriptors to inherit; `owner`: the user to become, for root.

        Raises:
            ChildError: the child cannot be started.
        """
        self._job = json.dumps(job).encode()
        account: dict[str, Any] = {}
        if owner is not None:
            account = {"user": owner.uid, "group": owner.gid, "extra_groups": []}
        try:
            # In / there is nothing to import by mistake, and the folder cannot be gone.
            self._process = subprocess.Popen(  # noqa: S603 - this Python, with our code
                [sys.executable, "-W", "ignore", "-c", CODE, ROOT], cwd="/", pass_fds=keep, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **account,
            )  # fmt: skip
        except (OSError, ValueError, subprocess.SubprocessError) as exc:
            # A virtual environment has a link to Python; the file behind the link may be out of a user's reach.
            python = os.path.realpath(sys.executable) if sys.executable else "Python"
            raise ChildError(f"{python} cannot be started: {getattr(exc, 'strerror', None) or exc}") from None

    def wait(self) -> dict[str, Any]:
        """
        Return the result.

        Raises:
            ChildError: the child has ended without a result, or took too long.
        """
        try:
            out, err = self._process.communicate(self._job, MAX_SECONDS)
        except subprocess.TimeoutExpired:
            self.end()
            self._process.communicate()
            raise ChildError(f"it took more than {MAX_SECONDS} s, and was ended") from None
        try:
            result = json.loads(out)
        except ValueError:
            last = err.decode(errors="replace").strip().rpartition("\n")[2]
            raise ChildError(last or f"its process ended with status {self._process.returncode}") from None
        assert isinstance(result, dict)
        return result

    def end(self) -> None:
        """End the child, if still running."""
        self._process.kill()
