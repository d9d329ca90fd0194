# arguments of the program's own; the rest is gunicorn's | http | python case.py --site shop --port @PORT@ -w 2 --threads 2
import argparse
import os
import sys

from gunicorn.app.wsgiapp import WSGIApplication


def main():
    """Read the arguments, and serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--site", required=True)
    parser.add_argument("--port", type=int, default=8000)
    own, rest = parser.parse_known_args()
    os.environ["SITE"] = own.site
    sys.argv = [sys.argv[0], "--bind", f"127.0.0.1:{own.port}", *rest, "app:application"]
    WSGIApplication("%(prog)s [OPTIONS]").run()


if __name__ == "__main__":
    main()
