"""Which field sections C keeps, for whom, and how long. A value that is the same object in two environs came from what was kept."""

import gc
import random
import sys
import weakref

import pytest
from harness.environs import from_client, from_front, made_by_native, made_by_twin, new_base, shown

tracemalloc = pytest.importorskip("tracemalloc")  # PyPy has neither this nor aserve._native
SECTIONS = 256
SECTION_MAX = 2048  # octets


pytestmark = pytest.mark.usefixtures("forget")


def values(native, base, request, count, name="HTTP_A"):
    """Return the value of a field in each of `count` environs."""
    return [made_by_native(native, base, request)[0][name] for _ in range(count)]


def held(value):
    """Return the collector's dicts with a value."""
    gc.collect()
    return [
        found
        for found in gc.get_objects()
        if type(found) is dict and any(type(its) is str and its == value for its in found.values())
    ]


@pytest.mark.parametrize(
    "request_", [from_client(("HTTP_A", "long enough")), from_front(("PATH_INFO", "/"), ("HTTP_A", "long enough"))]
)
def test_kept_from_the_second_time_on(native, request_):
    """A section seen once costs no memory; the third time, the fields are not read any more."""
    first, second, third, fourth = values(native, new_base(), request_, 4)
    assert first is not second and second is third is fourth


def test_of_each_listener(native):
    """An environ begun by a listener's section serves no further listener; nor do a front server's vars."""
    request = from_client(("HTTP_A", "long enough"))
    one, other = new_base(), new_base(scheme="https")
    assert values(native, one, request, 3)[2] is not values(native, other, request, 3)[2]
    for _ in range(3):
        assert [made_by_native(native, base, request)[0]["wsgi.url_scheme"] for base in (one, other)] == [
            "http",
            "https",
        ]
        made, _ = made_by_native(
            native, one, from_front(("PATH_INFO", "/"), ("HTTP_A", "long enough"))._replace(addr="x")
        )
        assert made["REMOTE_ADDR"] == ""


def test_another_request_line(native):
    """Behind a kept section stands each request's own line, whatever the last line."""
    base = new_base()
    lines = [("GET", ""), ("POST", "a=b"), ("GET", "c"), ("HEAD", ""), ("GET", "")]
    for method, query in [*lines, *lines]:
        line = [
            ("REQUEST_METHOD", method),
            ("REQUEST_URI", f"/{query}"),
            ("PATH_INFO", "/"),
            ("QUERY_STRING", query),
            ("SERVER_PROTOCOL", method),
        ]
        request = from_client(("HTTP_A", "1"), line=line)
        assert shown(made_by_native(native, base, request)[0]) == made_by_twin(base, request)


def test_the_places_of_two_connections(native):
    """Each connection has the place of the last section; with a wrong place the answer is the same, and the place right again."""
    base = new_base()
    one, other = from_client(("HTTP_A", "one")), from_client(("HTTP_A", "other"))
    places = {request: [made_by_native(native, base, request)[1] for _ in range(3)][-1] for request in (one, other)}
    for place in (*places.values(), *range(SECTIONS)):
        for request in (one, other):
            made, its_place = made_by_native(native, base, request, place)
            assert its_place == places[request]
            assert shown(made) == made_by_twin(base, request)


@pytest.mark.parametrize(
    "name", ["HTTP_AUTHORIZATION", "HTTP_PROXY_AUTHORIZATION", "AUTHORIZATION", "HTTP_X_REQUEST_ID", "HTTP_TRACEPARENT"]
)
def test_secrets_are_not_kept(native, name):
    """Nothing is left of credentials, and of each request's own values, when the environ is gone."""
    base = new_base()
    for make in (from_client, lambda *fields: from_front(("PATH_INFO", "/"), *fields)):
        secret, open_ = f"secret of {name}", f"open beside {name}"
        values(native, base, make(("HTTP_A", "1"), (name, secret)), 4)
        values(native, base, make((name, secret), ("HTTP_A", "1")), 4)
        values(native, base, make(("HTTP_A", open_)), 4)
        assert held(secret) == [] and len(held(open_)) == 1


def test_the_longest_that_is_kept(native):
    """Longer sections would take too much memory."""
    base = new_base()
    for size, is_kept in [(SECTION_MAX, True), (SECTION_MAX + 1, False)]:
        _, second, third = values(native, base, from_client(("HTTP_A", "x" * (size - len("HTTP_A\0")))), 3)
        assert (second is third) == is_kept


def test_the_base_of_one_client(native):
    """A client's own base is not kept when the connection is gone; nor are environs of the base."""
    base = {**new_base(), "SSL_CLIENT_S_DN": "CN=someone special"}
    count = sys.getrefcount(base)
    first, second, third = values(native, base, from_client(("HTTP_A", "long enough")), 3)
    assert second is not third and sys.getrefcount(base) == count
    del base
    assert held("CN=someone special") == []


def test_sections_that_come_once(native):
    """Many sections seen once put out no repeated section."""
    base = new_base()
    request = from_client(("HTTP_A", "long enough"))
    kept = values(native, base, request, 2)[1]
    for number in range(4 * SECTIONS):
        made_by_native(native, base, from_client(("HTTP_A", f"once: {number}")))
    assert values(native, base, request, 1)[0] is kept


def test_more_sections_than_places(native):
    """A section takes another's place; each answer is right, and the replaced section is gone."""
    base = new_base()
    requests = [from_client(("HTTP_A", f"section {number}"), ("HTTP_B", "b")) for number in range(2 * SECTIONS)]
    for _ in range(2):
        for request in requests:
            for _ in range(2):
                made, _ = made_by_native(native, base, request)
            assert shown(made) == made_by_twin(base, request)
    del made
    gc.collect()
    kept = [
        found
        for found in gc.get_objects()
        if type(found) is dict and str(found.get("HTTP_A", "")).startswith("section ")
    ]
    assert SECTIONS / 2 < len(kept) <= SECTIONS


def test_forget_keeps_nothing(native):
    """After `forget` the listener's base can go."""
    base = new_base()
    gone = weakref.ref(base)
    client = from_client(("HTTP_A", "of a client"))
    values(native, base, client, 3)
    place = made_by_native(native, base, client)[1]
    fronts = (
        from_front(("PATH_INFO", "/"), ("HTTP_A", "of a front server"), ("HTTP_B", f"{number}")) for number in range(9)
    )
    # Every 256th has the place of the client's section, and would take the place.
    values(native, base, next(front for front in fronts if made_by_native(native, base, front)[1] != place), 3)
    assert len(held("of a client")) == len(held("of a front server")) == 1
    del base
    gc.collect()
    assert gone() is not None
    native.forget()
    gc.collect()
    assert gone() is None and held("of a client") == held("of a front server") == []


def mixed(native, bases, count):
    """Make environs of all kinds: kept and not, plain and not, whole and cut off."""
    pick = random.Random(1)
    for number in range(count):
        fields = [(f"HTTP_{letter}", f"{pick.randrange(9)} times {letter}") for letter in pick.sample("ABCDEF", 3)]
        if not pick.randrange(4):
            fields.append(
                pick.choice([("HTTP_AUTHORIZATION", "x y"), ("HTTP_B", f"again {number}"), ("HTTP_LONG", "x" * 3000)])
            )
        request = from_client(*fields) if pick.randrange(2) else from_front(("PATH_INFO", "/some where"), *fields)
        if not pick.randrange(8):
            request = request._replace(vars=request.vars[: pick.randrange(len(request.vars))])
        made_by_native(native, pick.choice(bases), request, pick.randrange(SECTIONS))
    native.forget()


def test_nothing_leaks_after_10000_requests(native):
    """Memory in use and the number of objects are as before."""
    bases = [new_base(), new_base(scheme="https"), {**new_base()}]
    mixed(native, bases, 1000)
    tracemalloc.start()
    try:
        seen = []
        for _ in range(2):
            mixed(native, bases, 5000)
            gc.collect()
            seen.append(
                (tracemalloc.get_traced_memory()[0], len(gc.get_objects()), [sys.getrefcount(base) for base in bases])
            )
    finally:
        tracemalloc.stop()
    (memory, objects, references), (memory_after, objects_after, references_after) = seen
    assert references == references_after
    assert abs(objects_after - objects) < 100 and abs(memory_after - memory) < 20_000


@pytest.mark.skipif(not hasattr(sys, "gettotalrefcount"), reason="only a debug build of CPython counts all references")
def test_no_reference_leaks(native):
    """The same by the count of all references."""
    bases = [new_base(), {**new_base()}]
    mixed(native, bases, 1000)
    gc.collect()
    before = sys.gettotalrefcount()
    mixed(native, bases, 10_000)
    gc.collect()
    assert abs(sys.gettotalrefcount() - before) < 100
