"""The app of all configurations in ../uwsgi and ../gunicorn: it tells the state of its process."""

import json
import os
import sys


def application(environ, start_response):
    """Answer with JSON."""
    uwsgi = sys.modules.get("uwsgi")
    told = {
        "folder": os.path.basename(os.getcwd()),
        "variables": {name: value for name, value in os.environ.items() if name.startswith("SHOP_")},
        "options": sorted(uwsgi.opt) if uwsgi is not None else [],
    }
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(told).encode()]
