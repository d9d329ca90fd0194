"""A former mule of uWSGI."""

import time

time.sleep(1000)
