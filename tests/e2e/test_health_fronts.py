"""Health checks by HAProxy and nginx, with the configurations of docs/health.md."""

import pytest
from harness import apps
from harness.front import Page

pytestmark = [pytest.mark.checkout, pytest.mark.one_way, pytest.mark.long_on_pypy]

PAGE = Page("health")
HAPROXY, NGINX = "Health checks by HAProxy", "Health checks behind nginx"
READY = "/-/health/ready"


def test_haproxy_takes_a_draining_server_out(start_server, fronts, wait_until):
    server = start_server(apps.hello, **{**PAGE.settings(HAPROXY), "bind": "127.0.0.1:0"})
    changes = {"127.0.0.1:8000": f"127.0.0.1:{server.address[1]}", "inter 2s": "inter 50ms"}
    haproxy = fronts.haproxy(PAGE.block(HAPROXY, "haproxy"), changes)
    assert haproxy.fetch("/")[2] == b"hello\n"
    server.begin_drain()

    def is_out():
        status, _, body = haproxy.fetch("/")
        assert status == 503 or body == b"hello\n"
        return status == 503

    wait_until(is_out)
    assert "503" in haproxy.log and "DOWN" in haproxy.log


@pytest.mark.parametrize(("allowed", "status"), [("127.0.0.1", 200), ("10.0.0.0/8", 403)])
def test_nginx_answers_allowed_addresses_alone(start_server, fronts, allowed, status):
    """Only allowed addresses get the health check; the site is open to all."""
    app = apps.Recorder(apps.hello)
    start_server(app, **{**PAGE.settings(NGINX), "bind": f"uwsgi://unix:{fronts.socket}"})
    changes = {"unix:/run/app/app.sock": f"unix:{fronts.socket}", "allow 10.0.0.0/8": f"allow {allowed}"}
    nginx = fronts.nginx(PAGE.block(NGINX, "nginx"), changes)
    found, _, body = nginx.fetch(READY)
    assert found == status and (body == b"ready\n") is (status == 200) and app.count == 0
    assert nginx.fetch("/")[2] == b"hello\n"
