"""The wire protocols by name and parser, and by name what makes their exchanges for the lane; nothing else."""

from . import http1, httptools1, scgi, uwsgi

PROTOCOLS = {
    ("http", "c"): http1.new_factory,
    ("http", "httptools"): httptools1.new_factory,
    ("uwsgi", "c"): uwsgi.new_factory,
    ("scgi", "c"): scgi.new_factory,
}

EXCHANGE_FACTORIES = {
    "http": http1.new_exchange_factory,
    "uwsgi": uwsgi.new_exchange_factory,
    "scgi": scgi.new_exchange_factory,
}
