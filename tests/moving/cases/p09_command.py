# a program that starts the command gunicorn with a file, as MLflow does, and passes signals on | http | python case.py @PORT@
import os
import signal
import subprocess
import sys

SETTINGS = """\
workers = 2
raw_env = ["SITE=" + __import__("os").environ["SHOP_SITE"]]
accesslog = "access.log"
"""


def main(port):
    """Start the server, and wait for it."""
    with open("settings.py", "w") as file:
        file.write(SETTINGS)
    words = ["gunicorn", "-b", f"127.0.0.1:{port}", "-c", "settings.py", "--name", "shop-web", "app:application"]
    process = subprocess.Popen(words, env={**os.environ, "SHOP_SITE": "shop"})
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: process.send_signal(number))
    return process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
