"""Behind real proxies that speak HTTP or the PROXY protocol, with the configurations of docs/proxies.md."""

import contextlib
import http.client
import json
import os
import ssl
import subprocess
import sys
import threading

import pytest
from harness.front import IS_ROOT, Page, program, site

pytestmark = [
    pytest.mark.checkout,
    pytest.mark.one_way,
    pytest.mark.skipif(sys.platform != "linux", reason="clients need addresses of their own: on Linux all of 127/8"),
    pytest.mark.long_on_pypy,
]

PAGE = Page("proxies")
# Not the proxy's address.
CLIENT = "127.0.0.9"
# Fields of a client that poses as another.
LIES = {
    "Forwarded": "for=1.2.3.4;proto=https;host=evil.example",
    "X-Forwarded-For": "1.2.3.4",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "evil.example",
    "X-Forwarded-Port": "666",
    "X-Forwarded-Prefix": "/evil",
    "X-Forwarded-User": "root",
    "X-Real-IP": "1.2.3.4",
    "X_Forwarded_For": "1.2.3.4",
}


@pytest.fixture
def serve(start_server):
    """Serve the site by a section of the page: serve(heading) -> its address."""

    def start(heading, app=site, **settings):
        settings = {**PAGE.settings(heading), **settings}
        if not settings["bind"].startswith("unix:"):
            settings["bind"] = settings["bind"].replace(":8000", ":0")
        server = start_server(app, **settings)
        return server if isinstance(server.address, str) else f"127.0.0.1:{server.address[1]}"

    return start


def fetch(front, target="/x?y", fields=LIES, context=None, client=CLIENT):
    """Return status and body of a response to a client with its own address."""
    make = http.client.HTTPConnection if context is None else http.client.HTTPSConnection
    options = {} if context is None else {"context": context}
    connection = make("127.0.0.1", front.port, timeout=20, source_address=(client, 0), **options)
    with contextlib.closing(connection):
        connection.request("GET", target, headers={"Host": "www.example:8080", **fields})
        response = connection.getresponse()
        return response.status, response.read()


def environ_of(front, *arguments, **options):
    status, body = fetch(front, *arguments, **options)
    assert status == 200, body
    return json.loads(body)


def shown(environ):
    """Return the facts of client and server, in one line."""
    names = ("REMOTE_ADDR", "wsgi.url_scheme", "HTTP_HOST", "SCRIPT_NAME", "PATH_INFO")
    return " ".join(environ.get(name) or "-" for name in names)


def forwarded(environ):
    """Return the left fields of proxies about their client."""
    return {name[5:]: value for name, value in environ.items() if "FORWARDED" in name or name == "HTTP_X_REAL_IP"}


def test_nginx_tells_its_clients_address(serve, fronts):
    """The app sees a client's address and scheme as nginx saw them, on kept connections; the client's lies are gone."""
    nginx = fronts.nginx(PAGE.block("nginx", "nginx"), {"127.0.0.1:8000": serve("nginx")})
    for fields in (LIES, {}, LIES):
        environ = environ_of(nginx, fields=fields)
        assert shown(environ) == f"{CLIENT} http www.example:8080 - /x"
        assert forwarded(environ) == {"X_FORWARDED_FOR": CLIENT, "X_FORWARDED_PROTO": "http"}
        assert environ["REMOTE_PORT"] == "" and environ["QUERY_STRING"] == "y"
    # Only a client from the proxy's own address can lie: see the page.
    assert environ_of(nginx, client="127.0.0.1")["REMOTE_ADDR"] == "1.2.3.4"


def test_nginx_keeps_its_connections(serve, fronts):
    """Requests of several clients share nginx's connections, and stay apart."""
    nginx = fronts.nginx(PAGE.block("nginx", "nginx"), {"127.0.0.1:8000": serve("nginx")})
    found = {}

    def ask(client):
        found[client] = {environ_of(nginx, client=client)["REMOTE_ADDR"] for _ in range(20)}

    clients = [f"127.0.1.{number}" for number in range(1, 9)]
    threads = [threading.Thread(target=ask, args=(client,), daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == {client: {client} for client in clients}


def test_an_untrusted_nginx_is_the_client(serve, fronts):
    """An unnamed nginx is the client, and its fields are removed."""
    where = serve("nginx", trusted_proxies="127.0.0.2")
    nginx = fronts.nginx(PAGE.block("nginx", "nginx"), {"127.0.0.1:8000": where})
    environ = environ_of(nginx)
    assert shown(environ) == "127.0.0.1 http www.example:8080 - /x" and forwarded(environ) == {}


def test_a_mount_point(serve, fronts):
    where = serve("A mount point")
    nginx = fronts.nginx(PAGE.block("A mount point", "nginx"), {"127.0.0.1:8000": where})
    environ = environ_of(nginx, "/app/x%20y?z")
    assert shown(environ) == f"{CLIENT} http www.example:8080 /app /x y"
    assert (environ["SERVER_NAME"], environ["SERVER_PORT"]) == ("www.example", "8080")


def test_forwarded_of_nginx_is_obeyed(serve, fronts):
    nginx = fronts.nginx(PAGE.block("Forwarded", "nginx"), {"127.0.0.1:8000": serve("Forwarded")})
    environ = environ_of(nginx)
    assert shown(environ) == f"{CLIENT} http www.example:8080 - /x"
    assert forwarded(environ) == {"FORWARDED": f"for={CLIENT};proto=http"}


@pytest.mark.parametrize("is_named", [True, False])
def test_a_unix_socket(serve, fronts, is_named):
    """nginx is believed by its workers' user."""
    assert PAGE.settings("A unix socket")["trusted_proxies"] == "unix:uid=www-data"
    worker = "nobody" if IS_ROOT else os.getuid()
    serve("A unix socket", bind=f"unix:{fronts.socket}", trusted_proxies=f"unix:uid={worker if is_named else 4711}")
    block = PAGE.block("A unix socket", "nginx")
    nginx = fronts.nginx(block, {"unix:/run/app/app.sock": f"unix:{fronts.socket}"})
    environ = environ_of(nginx)
    assert shown(environ) == f"{CLIENT if is_named else '-'} http www.example:8080 - /x"
    assert bool(forwarded(environ)) is is_named


def test_apache_is_believed_for_its_own_words(serve, fronts):
    """Apache appends to received fields; only its own words count."""
    apache = fronts.apache(PAGE.block("Apache", "apache"), {"127.0.0.1:8000": serve("Apache")})
    environ = environ_of(apache)
    assert shown(environ) == f"{CLIENT} http www.example:8080 - /x"
    assert forwarded(environ) == {
        "X_FORWARDED_FOR": CLIENT,
        "X_FORWARDED_PROTO": "http",
        "X_FORWARDED_HOST": "www.example:8080",
    }


def test_caddy_tells_its_clients_address(serve, fronts):
    """Caddy lets no client's word through."""
    block = PAGE.block("Caddy", "caddyfile").replace("example.com {", ":80 {")
    caddy = fronts.caddy(block, {"127.0.0.1:8000": serve("Caddy")})
    environ = environ_of(caddy)
    assert shown(environ) == f"{CLIENT} http www.example:8080 - /x"
    assert forwarded(environ) == {"X_FORWARDED_FOR": CLIENT, "X_FORWARDED_PROTO": "http"}


def test_haproxy_adds_a_line_that_counts(serve, fronts):
    haproxy = fronts.haproxy(PAGE.block("HAProxy", "haproxy"), {"127.0.0.1:8000": serve("HAProxy")})
    environ = environ_of(haproxy)
    assert shown(environ) == f"{CLIENT} http www.example:8080 - /x"
    assert forwarded(environ) == {"X_FORWARDED_FOR": CLIENT, "X_FORWARDED_PROTO": "http"}


def test_the_sections_about_several(serve):
    """The commands of the page are understood."""
    settings = PAGE.settings("Several proxies")
    assert settings["trusted_proxies"] == "10.0.5.0/28,192.0.2.17"
    serve("Several proxies")
    serve("Several proxies", trusted_proxies="10.0.0.0/8", trusted_hops="2")
    assert "--trusted-proxies 10.0.0.0/8 --trusted-hops 2 " in PAGE.text


# The PROXY protocol

PROXY = "The PROXY protocol"


@pytest.mark.parametrize("version", ["send-proxy", "send-proxy-v2"])
def test_haproxy_announces_its_client(serve, fronts, version, wait_until):
    """The client's address and port come by both versions; its fields stay, and its health check is local."""
    seen = []

    def app(environ, start_response):
        seen.append((environ["PATH_INFO"], environ["REMOTE_ADDR"]))
        return site(environ, start_response)

    block = PAGE.block(PROXY, "haproxy")
    changes = {
        "127.0.0.1:8000": serve(PROXY, app),
        "send-proxy-v2 check": f"{version} check inter 50ms",
        "backend app\n    mode tcp\n": "backend app\n    mode tcp\n    option httpchk GET /health\n",
    }
    haproxy = fronts.haproxy(block, changes)
    environ = environ_of(haproxy)
    assert shown(environ) == f"{CLIENT} http www.example:8080 - /x" and forwarded(environ) == {}
    assert environ["SERVER_PORT"] == str(haproxy.port) and environ["REMOTE_PORT"].isdigit()
    wait_until(lambda: ("/health", "127.0.0.1") in seen)


def test_haproxy_tells_of_tls(serve, fronts):
    """Where HAProxy takes TLS off, the app knows of TLS."""
    folder = fronts.folder
    command = [
        program("openssl"),
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    subprocess.run(
        [*command, "-keyout", folder / "key", "-out", folder / "crt"], check=True, capture_output=True, timeout=60
    )
    pem = folder / "site.pem"
    pem.write_bytes((folder / "crt").read_bytes() + (folder / "key").read_bytes())
    [block] = [block for block in PAGE.text.split("```") if block.startswith("haproxy") and "ssl crt" in block]
    block = block[len("haproxy\n") :]
    haproxy = fronts.haproxy(block, {"127.0.0.1:8000": serve(PROXY), "/etc/haproxy/site.pem": str(pem)})
    context = ssl.create_default_context(cafile=str(folder / "crt"))
    context.check_hostname = False
    environ = environ_of(haproxy, context=context)
    assert shown(environ) == f"{CLIENT} https www.example:8080 - /x"
    assert environ["HTTPS"] == "on" and environ["SERVER_PORT"] == str(haproxy.port)


def test_nginx_announces_its_client(serve, fronts):
    """nginx's stream module speaks version 1."""
    nginx = fronts.nginx_stream(PAGE.block(PROXY, "nginx"), {"127.0.0.1:8000": serve(PROXY)})
    environ = environ_of(nginx)
    assert shown(environ) == f"{CLIENT} http www.example:8080 - /x" and forwarded(environ) == {}


def test_without_the_header(serve, fronts, caplog):
    """A balancer without the header is told in the log, and reaches nothing."""
    block = PAGE.block(PROXY, "haproxy")
    haproxy = fronts.haproxy(block, {"127.0.0.1:8000": serve(PROXY), "send-proxy-v2 check": ""})
    with pytest.raises((http.client.BadStatusLine, ConnectionError)):
        fetch(haproxy)
    assert "closed: 127.0.0.1: it began with b'GET /x?y HTT' and no PROXY protocol header" in caplog.text
