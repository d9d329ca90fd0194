"""How long tests with Hypothesis try examples beyond those of each run."""

from __future__ import annotations

import os

SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
