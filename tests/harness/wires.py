"""Shared parts of the tests of the event loop's wire: requests, responses, and the passing of time."""

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
GET_CLOSE = GET[:-2] + b"Connection: close\r\n\r\n"
POST_HEAD = b"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"
POST = POST_HEAD + b"hello"
EXPECT = POST_HEAD[:-2] + b"Expect: 100-continue\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
BAD = b"GET /\r\n\r\n"


def get(number):
    return GET.replace(b"/ ", b"/%d " % number)


def bodies(octets):
    """Return the bodies of the responses in these octets, all with a Content-Length."""
    found = []
    while octets:
        head, _, rest = octets.partition(b"\r\n\r\n")
        if head.startswith(b"HTTP/1.1 100"):
            found.append(b"100")
            octets = rest
            continue
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        found.append(rest[:length])
        octets = rest[length:]
    return found


def pass_seconds(connection, count):
    for _ in range(count):
        connection.on_second()
