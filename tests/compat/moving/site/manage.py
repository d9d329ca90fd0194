#!/usr/bin/env python3
"""An attached program, which stays in the foreground."""

import time

time.sleep(1000)
