"""One client's TLS session: C's, of the interpreter's own libssl, or that of Python's ssl module.

Owns:     finding libssl; OwnContext and OwnSession, which C makes; PythonSession, for all that C does not know.
Thread:   a session belongs to one thread at a time; contexts: any.
Spec:     RFC 8446.
Not here: certificates and settings (certificates.py), octets on the wire (connections/accepting/tls_transport.py), the C (cparsers/tls.h).

Only a session of C's can serve requests in the lane: on the event loop and there it is the same session. OpenSSL's functions are found by name in
the library that Python's ssl module has loaded, so a system's update of OpenSSL counts for both, and a wheel brings no library of its own.
Contexts and sessions are made by OpenSSL's public functions, and Python's own objects are not touched: their layout is private.
"""

from __future__ import annotations

import functools
import ssl
import sys
from typing import Any, Callable, Protocol

from .._cparsers import ffi, lib
from .errors import guard

SESSION_BYTES = 20_000  # about, in C: so that PyPy's collector knows
READ_BYTES = 1 << 18  # decrypted at once: what an event loop reads at once
_new = ffi.new_allocator(should_clear_after_alloc=False)


@functools.cache
def why_no_library() -> str:
    """Return why C cannot use the libssl of Python's ssl module; empty: it can."""
    if not lib.lane_available():
        return "a system without epoll"
    # Others have functions of the same names, and other numbers; AWS-LC and BoringSSL say `compatible`.
    if not ssl.OPENSSL_VERSION.startswith("OpenSSL") or "compatible" in ssl.OPENSSL_VERSION:
        return ssl.OPENSSL_VERSION
    path = getattr(sys.modules.get("_pypy_openssl") or sys.modules["_ssl"], "__file__", None)
    missing = lib.tls_open(path.encode()) if path else ffi.NULL
    if path and missing == ffi.NULL:
        return ""
    return "OpenSSL is linked into Python"  # statically: its names are hidden


class TLSSession(Protocol):
    """A session, as a transport uses it; errors are those of an ssl.SSLObject."""

    @property
    def is_released(self) -> bool:
        """Whether another owner has it."""

    def feed(self, octets: bytes, /) -> Any:
        """Take octets that the client has sent."""

    @property
    def pending(self) -> bool:
        """Whether fed octets are not decrypted yet."""

    @property
    def out_size(self) -> int:
        """How many octets `take` will return."""

    def take(self) -> bytes:
        """Return the octets that are to be sent, once."""

    def do_handshake(self) -> None:
        """Go on with the handshake."""

    def read(self, count: int, /) -> bytes:
        """Decrypt at most so many octets; empty: the client's closure alert has come."""

    def write(self, octets: Any, /) -> int:
        """Encrypt; return how many octets were taken."""

    def send(self, fd: int, octets: Any, /) -> int:
        """
        Encrypt and send as much as the socket takes; return how many octets were taken. Records may be left for `take`.

        Raises:
            ConnectionError: the client is gone.
        """

    def unwrap(self) -> Any:
        """Announce the end of our octets."""

    def version(self) -> str | None:
        """Return the version of TLS."""

    def cipher(self) -> tuple[str, str, int] | None:
        """Return the cipher suite, its name first."""

    def selected_alpn_protocol(self) -> str | None:
        """Return the protocol that ALPN has chosen."""

    @property
    def getpeercert(self) -> Callable[..., Any]:
        """Return the client's certificate."""


class PythonSession:
    """A session of Python's ssl module."""

    is_released = False

    def __init__(self, context: ssl.SSLContext) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = context.wrap_bio(incoming, outgoing, server_side=True)
        self._incoming, self._outgoing = incoming, outgoing
        self.feed: Callable[[bytes], Any] = incoming.write
        self.take: Callable[[], bytes] = outgoing.read
        self.do_handshake, self.unwrap = guard(session.do_handshake), guard(session.unwrap)
        self.read, self.write = guard(session.read), guard(session.write)
        self.version, self.cipher = session.version, session.cipher
        self.getpeercert: Callable[..., Any] = session.getpeercert
        self.selected_alpn_protocol = session.selected_alpn_protocol

    @property
    def pending(self) -> bool:
        """See TLSSession."""
        return bool(self._incoming.pending)

    def send(self, fd: int, octets: Any) -> int:
        """See TLSSession: Python's session has no socket."""
        return 0

    @property
    def out_size(self) -> int:
        """See TLSSession."""
        return self._outgoing.pending


class OwnContext:
    """A context of C's, beside one of Python's that was made of the same files."""

    def __init__(self, like: ssl.SSLContext, chain: str, key: str | None, ciphers: str, protocols: list[str]) -> None:
        """
        Make it.

        Raises:
            OSError: OpenSSL does not take it; a file has changed since `like` was made of it, or memory is short.
        """
        names = b"".join(bytes([len(name)]) + name.encode("ascii") for name in protocols)
        made = lib.tls_context_new(
            os_path(chain), os_path(key or chain), ciphers.encode(), like.minimum_version, like.options & (1 << 64) - 1, names, len(names)
        )  # fmt: skip
        if made == ffi.NULL:
            raise OSError("OpenSSL has refused the certificate")
        self.struct = ffi.gc(made, lib.tls_context_free)


def os_path(path: str) -> bytes:
    """Return a path as the system has it."""
    return path.encode(sys.getfilesystemencoding(), "surrogateescape")


class OwnSession:
    """A session of C's."""

    def __init__(self, struct: Any) -> None:
        """Own a `tls_session *`."""
        self.own(struct)

    @classmethod
    def of(cls, context: OwnContext) -> OwnSession:
        """Begin a session."""
        struct = lib.tls_begin(context.struct)
        if struct == ffi.NULL:
            raise MemoryError
        return cls(struct)

    def own(self, struct: Any) -> None:
        """Free this `tls_session *` in the end."""
        self.struct = ffi.gc(struct, lib.tls_end, SESSION_BYTES)

    @property
    def is_released(self) -> bool:
        """See TLSSession."""
        return self.struct is None

    def release(self) -> Any:
        """Give the `tls_session *` to another owner."""
        struct, self.struct = self.struct, None  # a further call raises an error
        ffi.gc(struct, None)
        return struct

    def feed(self, octets: bytes) -> None:
        """See TLSSession."""
        if lib.tls_feed(self.struct, octets, len(octets)):
            raise MemoryError

    @property
    def pending(self) -> bool:
        """See TLSSession."""
        return bool(lib.tls_has_input(self.struct))

    @property
    def out_size(self) -> int:
        """See TLSSession."""
        return int(lib.tls_out_len(self.struct))

    def take(self) -> bytes:
        """See TLSSession."""
        octets = bytes(ffi.buffer(lib.tls_out(self.struct), lib.tls_out_len(self.struct)))
        lib.tls_clear_out(self.struct)
        return octets

    @property
    def hello(self) -> bytes:
        """The client's octets, if the lane has read them, and not answered."""
        return bytes(ffi.buffer(lib.tls_hello(self.struct), lib.tls_hello_len(self.struct)))

    def do_handshake(self) -> None:
        """See TLSSession."""
        self._check(lib.tls_shake(self.struct))

    def read(self, count: int) -> bytes:
        """See TLSSession."""
        room = _new("char[]", count)
        return bytes(ffi.buffer(room, self._check(lib.tls_read(self.struct, room, count))))

    def write(self, octets: Any) -> int:
        """See TLSSession."""
        size = len(octets)
        return self._check(lib.tls_write(self.struct, ffi.from_buffer(octets), size))

    def send(self, fd: int, octets: Any) -> int:
        """See TLSSession."""
        taken = lib.tls_push(self.struct, fd, ffi.from_buffer(octets), len(octets))
        if taken == lib.TLS_GONE:
            raise ConnectionError("the client is gone")
        return self._check(taken)

    def unwrap(self) -> None:
        """See TLSSession."""
        lib.tls_shut(self.struct)

    def version(self) -> str | None:
        """See TLSSession."""
        return _text(lib.tls_version(self.struct))

    def cipher(self) -> tuple[str, str, int] | None:
        """See TLSSession."""
        return _text(lib.tls_cipher(self.struct)), self.version() or "", 0

    def selected_alpn_protocol(self) -> str | None:
        """See TLSSession."""
        room = ffi.new("char[]", 255)
        return bytes(ffi.buffer(room, lib.tls_alpn(self.struct, room, 255))).decode("latin-1") or None

    def getpeercert(self, binary_form: bool = False) -> None:
        """See Session: C asks clients for none."""

    def _check(self, result: int) -> int:
        if result >= 0:
            return result
        if result == lib.TLS_WANT:
            raise ssl.SSLWantReadError
        why = ssl.SSLError(ssl.SSL_ERROR_SSL, _text(lib.tls_why(self.struct)))
        why.reason = why.args[1]
        raise why


def _text(found: Any) -> str:
    return bytes(ffi.string(found)).decode("latin-1")
