"""--maintenance: an existing file is the answer to every request."""

import pytest
from harness import apps
from harness.waiting import wait_until


@pytest.mark.also_inline
def test_a_sites_pages_give_way_to_the_file(start_server, raw_client, tmp_path):
    """All pages and files give way to the file, over kept connections, and health checks go on; without the file all is as before."""
    page, site = tmp_path / "down.html", tmp_path / "site"
    site.mkdir()
    (site / "a.txt").write_text("a")
    server = start_server(apps.hello, maintenance=str(page), static=f"/static={site}", healthcheck_path="/-/health")
    client = raw_client(server)
    assert client.fetch().status == client.fetch("/static/a.txt").status == 200
    page.write_text("<p>Back soon.")
    wait_until(lambda: client.fetch().status == 503)
    for target in ("/", "/static/a.txt"):
        reply = client.fetch(target)
        assert (reply.status, reply.body, reply.get("Retry-After")) == (503, b"<p>Back soon.", "120")
    assert client.fetch("/", method="POST", body=b"a=b").status == 503
    client.request("/", method="HEAD")
    assert client.recv_response(is_head=True).get("Content-Length") == "13"
    assert client.fetch("/-/health/ready").status == 200
    page.unlink()
    wait_until(lambda: client.fetch().status == 200)
    assert client.fetch("/static/a.txt").body == b"a"
