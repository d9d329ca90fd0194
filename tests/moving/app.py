"""The app of each case tells a server's view of a request, and the serving process."""

import json
import os
import sys
import threading
import time

TOLD = (
    "REMOTE_ADDR",
    "SCRIPT_NAME",
    "PATH_INFO",
    "QUERY_STRING",
    "SERVER_PROTOCOL",
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "wsgi.url_scheme",
)
FIELDS = ("HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_SSL", "RAW_URI", "REQUEST_URI")


def application(environ, start_response):
    """Answer with JSON; /slow takes a while, and writes the times of its work."""
    if environ["PATH_INFO"] == "/slow":
        return slow(start_response)
    told = {name: environ.get(name) for name in (*TOLD, *FIELDS)}
    told["wsgi.multithread"] = bool(environ["wsgi.multithread"])
    told["body"] = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)).decode()
    mask = os.umask(0)
    os.umask(mask)
    told.update(
        user=os.getuid(), group=os.getgid(), groups=sorted(os.getgroups()), umask=f"{mask:03o}", folder=os.getcwd(),
        site=os.environ.get("SITE"), arguments=len(sys.argv),
    )  # fmt: skip
    start_response("200 OK", [("Content-Type", "application/json"), ("X-App", "1")])
    return [json.dumps(told).encode()]


def slow(start_response):
    """Write the times of begin and end to a file, for a count of requests at once."""
    began = time.monotonic()
    time.sleep(0.5)
    line = f"{began} {time.monotonic()} {os.getpid()} {threading.get_ident()}\n"
    with open(os.environ["MOVING_TIMES"], "a") as file:
        file.write(line)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"slow"]


def make(global_conf, **settings):
    """Return the app, for PasteDeploy."""
    return application


app = application
