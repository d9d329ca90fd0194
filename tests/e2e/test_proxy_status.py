"""--proxy-status: an error sent by aserve in the app's place tells whose fault it is; no other response does."""

import pytest

NAME = "Proxy-Status"
READY = "/-/health/ready"


def app(environ, start_response):
    if environ["PATH_INFO"] == "/fail":
        raise ValueError("on purpose")
    start_response("503 Service Unavailable", [("Content-Length", "0")])
    return []


@pytest.mark.also_inline
@pytest.mark.provokes("ValueError: on purpose")
def test_whose_fault_it_is(start_server, raw_client):
    """The app's own errors and health checks have no such field; a failure of the app's, and a client's error, have."""
    server = start_server(app, proxy_status="web1", healthcheck_path="/-/health")
    server.call(lambda: server.server.set_unready("the database is gone"))
    client = raw_client(server)
    found = {path: client.fetch(path) for path in ("/", "/fail")}
    assert (found["/"].status, found["/"].get(NAME)) == (503, None)
    assert (found["/fail"].status, found["/fail"].get(NAME)) == (500, "web1; error=http_response_incomplete")
    ready = raw_client(server).fetch(READY)
    assert (ready.status, ready.get(NAME)) == (503, None)
    client.send(b"GET / HTTP/1.1\r\n\r\n")
    refused = client.recv_response()
    assert (refused.status, refused.get(NAME)) == (400, "web1; error=http_request_error")


@pytest.mark.one_way
@pytest.mark.provokes("ValueError: on purpose")
def test_no_setting_means_no_field(start_server, raw_client):
    assert raw_client(start_server(app)).fetch("/fail").get(NAME) is None
