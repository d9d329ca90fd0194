"""`python -m aserve`: the same as the `aserve` command."""

import sys

from .command.cli import main

if __name__ == "__main__":
    sys.exit(main())
