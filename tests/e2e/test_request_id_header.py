"""--request-id-header: each response tells its request's id; the app and the access log have the same."""

import re

import pytest

NAME = "X-Request-ID"


def app(environ, start_response):
    if environ["PATH_INFO"] == "/fail":
        raise ValueError("on purpose")
    body = environ["HTTP_X_REQUEST_ID"].encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


@pytest.mark.also_inline
@pytest.mark.provokes("ValueError: on purpose")
def test_each_response_has_the_requests_id(start_server, raw_client, tmp_path, wait_until):
    """Each response has the received id, or a new one; so has an error of aserve's, and without the setting none."""
    log = tmp_path / "log"
    server = start_server(
        app, request_id_header=NAME, access_log=str(log), access_log_format="%(status)s %(request_id)s"
    )
    client = raw_client(server)
    sent, ours = client.fetch("/", f"{NAME}: abc"), client.fetch("/")
    assert sent.get(NAME) == sent.body.decode() == "abc"
    assert ours.get(NAME) == ours.body.decode() and re.fullmatch("[0-9a-f]{32}", ours.get(NAME))
    failed = client.fetch("/fail", f"{NAME}: def")
    assert (failed.status, failed.get(NAME)) == (500, "def")
    lines = {"200 abc", f"200 {ours.get(NAME)}", "500 def"}
    wait_until(lambda: log.exists() and {*log.read_text().splitlines()} == lines, explain=log.read_text)
    assert raw_client(start_server(app)).fetch("/", f"{NAME}: abc").get(NAME) is None
