"""The suites of the report that repeat what others have published: a row for each of their rows.

Owns:     the sets of suites A to F that no other command has: servers, app, clients, and the row that each repeats.
Not here: what a set is (targets.py), measuring (rounds.py); RPC, the sidecar, reloads and the like have their own commands.
"""

from __future__ import annotations

from servers import WORKER_COUNTS
from targets import BOTH, CPYTHON, Set

UWSGI = "uWSGI's PyPy plugin (2013), 8-core i7, "
GUNICORN = "gunicorn on PyPy, weighttp -k -n 10000 -c 200 (ab here), "
CHERRYPY = "CherryPy's WSGI server, ab -k -n 3000 with 10 to 50 clients: "
PYRUVATE = "Pyruvate for Zope and Plone, wrk over rising concurrency: "
SCGI = "SCGI against uwsgi, POST of 71,453 octets, ab -n 10000 -c 100, the best and the worst of eight left out (which moves no median): "
RISING = (
    "aserve", "pyruvate", "bjoern", "waitress", "cheroot", "gunicorn", "uwsgi", "granian", "fastwsgi", "fastpysgi", "freastal",
    "peregrine", "m0serve", "socketify",
)  # fmt: skip
BLOBS = [f"{name}-t{count}" for name in ("aserve", "pyruvate", "waitress", "uwsgi") for count in (1, 2, 4)]
ZOPE = ("aserve-t4", "pyruvate-t4", "waitress-t4", "gunicorn-t4")
WORKERS = [
    f"{name}-w{count}"
    for name in ("aserve", "gunicorn-sync", "gunicorn", "gunicorn-tornado")
    for count in WORKER_COUNTS
]
PROTOCOLS = ("uwsgi:aserve", "uwsgi:uwsgi", "scgi:aserve", "scgi:uwsgi")
# Rounds: on PyPy the warm-up takes the time.
ONCE = (("cpython", 1), ("pypy", 1))
TWICE = (("cpython", 2), ("pypy", 1))
EIGHT = (("cpython", 8),)

SETS = {
    "A hello": Set(
        "suite-a", "uwsgi", ("aserve", "uwsgi", "uwsgi-pypy", "waitress", "gunicorn", "socketify"), connections=(100,),
        interpreters=BOTH, table="serve", counts_calls=True, rounds=TWICE,
        source=UWSGI + "hello world: 6,500 requests a second and 7 MB on CPython, 6,560 and 71 MB on PyPy",
    ),
    "A fib(36)": Set(
        "suite-a", "bare", ("aserve", "uwsgi", "uwsgi-pypy"), app="fib36", connections=(1,), interpreters=BOTH, table="serve",
        rounds=TWICE, source=UWSGI + "fib(36): 6,400 ms and 65 MB on CPython, 900 ms and 71 MB on PyPy",
    ),
    "A test app": Set(
        "suite-a", "uwsgi", ("aserve", "uwsgi", "uwsgi-pypy", "waitress", "gunicorn", "socketify"), app="testapp", connections=(10,),
        interpreters=BOTH, table="serve", rounds=TWICE,
        source=UWSGI + "Werkzeug's test app: 600 requests a second and 13 MB on CPython, 1,500 and 74 MB on PyPy",
    ),
    "A test app, 8 threads": Set(
        "suite-a", "uwsgi-t8", ("aserve-t8", "uwsgi-t8", "waitress-t8", "gunicorn-t8"), app="testapp", connections=(10,),
        interpreters=BOTH, table="serve", rounds=TWICE,
        source=UWSGI + "the same with 8 threads at 10 clients: 200 and 14 MB on CPython, 1,100 and 88 MB on PyPy",
    ),
    "B workers": Set(
        "suite-b", "gunicorn-w1", tuple(WORKERS), connections=(100, 200), interpreters=BOTH, table="serve", requests=10_000,
        rounds=ONCE, source=GUNICORN + "-w 1 to 6: 2,500 to 3,600 on CPython, 6,000 to 9,800 on PyPy; all on one core here",
    ),
    "C hello": Set(
        "suite-c", "cheroot", ("aserve", "cheroot"), connections=(10, 20, 30, 40, 50), interpreters=CPYTHON, table="serve",
        requests=3000, counts_calls=True, source=CHERRYPY + "2170, 2080, 1920, 2051 and 2051 requests a second",
    ),
    "C all of CherryPy": Set(
        "suite-c", "cherrypy", ("aserve", "cherrypy"), app="cherrypy_hello", connections=(10, 20, 30, 40, 50), table="serve",
        requests=3000, rounds=TWICE, source=CHERRYPY + "the same page through all of CherryPy",
    ),
    "D rising": Set(
        "suite-d", "bjoern", RISING, connections=(1, 10, 100, 500, 1000), table="serve", rounds=TWICE,
        source=PYRUVATE + "requests, CPU, memory, errors; bjoern far ahead on hello world, errors at most but waitress and Pyruvate",
    ),
    "D blob": Set(
        "suite-d", "pyruvate-t4", (*BLOBS, "bjoern"), app="blob", connections=(10,), table="serve", rounds=ONCE,
        source=PYRUVATE + "5.2 MB: about 200 a second on bjoern, 180 on Pyruvate, 80 to 40 on waitress",
    ),
    "D blob from a file": Set(
        "suite-d", "pyruvate-t4", (*BLOBS, "bjoern"), app="blobfile", connections=(10,), table="serve", rounds=ONCE,
        source=PYRUVATE + "the same from a file",
    ),
    "D Zope's root page": Set(
        "suite-d", "waitress-t4", ZOPE, app="zope_root", connections=(10,), table="serve", rounds=TWICE, source=PYRUVATE + "Zope"
    ),
    "D a JSON view of Zope": Set(
        "suite-d", "waitress-t4", ZOPE, app="zope_json", connections=(10,), table="serve", rounds=TWICE, source=PYRUVATE + "Zope"
    ),
    "E behind nginx": Set(
        "suite-e", ":uwsgi", PROTOCOLS, app="echo", connections=(100,), way="sidecar", table="sidecar", requests=10_000,
        rounds=EIGHT, source=SCGI + "nginx, SCGI 4,332 requests a second, uwsgi 4,363",
    ),
    "E behind Apache": Set(
        "suite-e", ":uwsgi", PROTOCOLS, app="echo", connections=(100,), way="apache", table="sidecar", requests=10_000,
        rounds=EIGHT, source=SCGI + "httpd, SCGI 9,997",
    ),
    "F bad clients": Set(
        "suite-f", "aserve", tuple(f"{name}{suffix}" for name in ("aserve", "waitress", "gunicorn", "granian") for suffix in ("", "+bad")),
        app="token", connections=(90,), table="serve", rounds=TWICE, source="none: ten clients of chaos_client.py beside 90 good ones",
    ),
}  # fmt: skip


def sets_of(letters: str, interpreter: str) -> dict[str, Set]:
    """Return the sets of these suites that an interpreter has, by name."""
    return {name: each for name, each in SETS.items() if each.bench[-1] in letters and interpreter in each.interpreters}
