"""--add-field: every response has the fields, whichever part of the server answers."""

import pytest
from harness import apps

HSTS = ("Strict-Transport-Security", "max-age=31536000; includeSubDomains")
SETTINGS = {"add_field": [": ".join(HSTS), "X-A: b"], "healthcheck_path": "/-/health"}


def count_of(reply):
    """Return how often a response has each of the two fields."""
    return [reply.fields.count(field) for field in (HSTS, ("X-A", "b"))]


@pytest.mark.also_inline
@pytest.mark.parametrize("app", [apps.hello, apps.lazy_generator, apps.two_servers])
def test_responses_of_the_app(start_server, raw_client, app):
    """The app's responses have the fields in one piece, in several, and beside a Server field of the app's; nothing else differs."""
    client = raw_client(start_server(app, **SETTINGS))
    plain = raw_client(start_server(app)).fetch()
    for _ in range(3):
        reply = client.fetch()
        assert count_of(reply) == [1, 1] and reply.body == plain.body
    assert sorted(name for name, _ in reply.fields) == sorted([name for name, _ in plain.fields] + [HSTS[0], "X-A"])


@pytest.mark.provokes("the app raised")
def test_responses_of_the_server(start_server, raw_client):
    """Errors in the app's place, refusals before the app, and health checks have the fields."""
    server = start_server(apps.raises, **SETTINGS)
    assert count_of(raw_client(server).fetch("/-/health/live")) == [1, 1]
    failed = raw_client(server).fetch()
    assert failed.status == 500 and count_of(failed) == [1, 1]
    client = raw_client(server)
    client.send(b"BROKEN\r\n\r\n")
    refused = client.recv_response()
    assert refused.status == 400 and count_of(refused) == [1, 1]


def test_files_have_the_fields_too(start_server, raw_client, tmp_path):
    """Files have the fields, and so has a 304."""
    (tmp_path / "a.txt").write_text("a")
    client = raw_client(start_server(apps.hello, static=f"/={tmp_path}", **SETTINGS))
    first = client.fetch("/a.txt")
    assert first.body == b"a" and count_of(first) == [1, 1]
    second = client.fetch("/a.txt", f"If-None-Match: {first.get('ETag')}")
    assert second.status == 304 and count_of(second) == [1, 1]
