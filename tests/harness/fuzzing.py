"""How long tests with Hypothesis try examples beyond those of each run."""

import os

SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
