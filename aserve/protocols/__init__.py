"""The wire protocols by name and parser; nothing else."""

from . import http1, httptools1, scgi, uwsgi

PROTOCOLS = {
    ("http", "c"): http1.new_factory,
    ("http", "httptools"): httptools1.new_factory,
    ("uwsgi", "c"): uwsgi.new_factory,
    ("scgi", "c"): scgi.new_factory,
}
