#!/usr/bin/env python3
"""What an attached program is: it stays in the foreground."""

import time

time.sleep(1000)
