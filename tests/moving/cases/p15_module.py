# a program that starts `python -m gunicorn`, as Airflow does, and ends it | http | python case.py @PORT@
import signal
import subprocess
import sys


def main(port):
    """Start the server, and wait for it."""
    words = [
        sys.executable,
        "-m",
        "gunicorn",
        "--bind",
        f"127.0.0.1:{port}",
        "--workers",
        "2",
        "--timeout",
        "90",
        "app",
    ]
    process = subprocess.Popen(words)
    signal.signal(signal.SIGTERM, lambda number, frame: process.terminate())
    return process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
