"""`import gunicorn`, and `python -m gunicorn`, in a Python process that a program of `aserve python` has started."""

import sys

from aserve.compat.gunicorn.python import STAND_INS

sys.modules.update(STAND_INS)
