"""Types of the compiled parsers; what the functions do stands in cparsers/*.h."""

from typing import Any, overload

# cffi's C data has no static type: its fields are those of the C structs.
_CData = Any

class _FFI:
    NULL: _CData
    def new(self, ctype: str, init: object = ...) -> _CData: ...
    def new_allocator(self, *, should_clear_after_alloc: bool) -> Any: ...
    def buffer(self, cdata: _CData, size: int = ...) -> Any: ...
    @overload
    def from_buffer(self, python_buffer: object) -> _CData: ...
    @overload
    def from_buffer(self, ctype: str, python_buffer: object) -> _CData: ...
    def string(self, cdata: _CData, maxlen: int = ...) -> bytes: ...
    def cast(self, ctype: str, value: _CData) -> _CData: ...
    def sizeof(self, ctype: str) -> int: ...
    def offsetof(self, ctype: str, field: str) -> int: ...
    def addressof(self, library: object, name: str) -> _CData: ...

class _Lib:
    ASERVE_INCOMPLETE: int
    ASERVE_BAD_METHOD: int
    ASERVE_BAD_TARGET: int
    ASERVE_BAD_PERCENT: int
    ASERVE_BAD_REQUEST_LINE: int
    ASERVE_BAD_VERSION: int
    ASERVE_UNSUPPORTED_VERSION: int
    ASERVE_UNSUPPORTED_METHOD: int
    ASERVE_BARE_LF: int
    ASERVE_BARE_CR: int
    ASERVE_OBS_FOLD: int
    ASERVE_BAD_FIELD_NAME: int
    ASERVE_SPACE_BEFORE_COLON: int
    ASERVE_BAD_FIELD_VALUE: int
    ASERVE_MISSING_HOST: int
    ASERVE_REPEATED_HOST: int
    ASERVE_BAD_HOST: int
    ASERVE_BAD_CONTENT_LENGTH: int
    ASERVE_REPEATED_CONTENT_LENGTH: int
    ASERVE_LENGTH_AND_ENCODING: int
    ASERVE_BAD_TRANSFER_ENCODING: int
    ASERVE_UNKNOWN_CODING: int
    ASERVE_ENCODING_IN_1_0: int
    ASERVE_UNKNOWN_EXPECTATION: int
    ASERVE_TARGET_TOO_LONG: int
    ASERVE_HEAD_TOO_LARGE: int
    ASERVE_TOO_MANY_FIELDS: int
    ASERVE_BAD_CHUNK_SIZE: int
    ASERVE_BAD_CHUNK_EXTENSION: int
    ASERVE_LONG_CHUNK_EXTENSION: int
    ASERVE_BAD_CHUNK_END: int
    ASERVE_BAD_TRAILER: int
    ASERVE_TRAILERS_TOO_LARGE: int
    ASERVE_VARS_FULL: int
    ASERVE_NOT_UWSGI: int
    ASERVE_NOT_SCGI: int
    ASERVE_BAD_NETSTRING: int
    ASERVE_LENGTH_NOT_FIRST: int
    ASERVE_NO_SCGI_1: int
    ASERVE_REPEATED_VAR: int
    ASERVE_EMPTY_NAME: int
    ASERVE_VAR_OVERRUN: int
    ASERVE_NUL_IN_VAR: int
    ASERVE_TOO_MANY_VARS: int
    ASERVE_PACKET_TOO_LARGE: int
    ASERVE_REPEATED_CONTENT_TYPE: int
    ASERVE_LENGTH_CONTRADICTED: int
    ASERVE_LAST_ERROR: int
    HTTP1_KEEP_ALIVE: int
    HTTP1_VERSION_1_1: int
    HTTP1_HEAD: int
    HTTP1_LENGTH: int
    HTTP1_CHUNKED: int
    HTTP1_EXPECT_CONTINUE: int
    HTTP1_FORWARDED: int
    HTTP1_DROPPED: int
    HTTP1_WEBSOCKET: int
    HTTP1_LINE_VARS: int
    KNOWN_RAW_MAX: int
    KNOWN_VARS_MAX: int
    UWSGI_WSGI: int
    UWSGI_WSGI_MOUNT: int
    UWSGI_PING: int
    UWSGI_RPC: int
    LANE_HTTP: int
    LANE_UWSGI: int
    LANE_SCGI: int
    LANE_KNOWN: int
    LANE_LEFT: int
    LANE_WHOLE: int
    LANE_BEGUN: int
    LANE_PART: int
    LANE_DONE: int
    LANE_GONE: int
    LANE_UNSENT: int
    LANE_LOST: int
    LANE_LATE: int
    PUMP_SENT: int
    PUMP_GONE: int
    PUMP_SHORT: int
    PUMP_LATE: int
    LANE_FREE: int
    LANE_IDLE: int
    LANE_BUSY: int
    LANE_MORE: int
    LANE_ENDING: int
    LANE_BODY: int
    LOAD_COUNT_BITS: int
    LOAD_CONN_SHIFT: int
    LOAD_REQUEST_SHIFT: int
    LOAD_TURN_SHIFT: int
    IN_FLIGHT_TEXT_CAP: int

    # aserve.h
    def aserve_status(self, code: int, /) -> int: ...
    def aserve_strerror(self, code: int, /) -> _CData: ...
    # http1.h
    def http1_parse_head(self, buf: _CData, len: int, scanned: int, head: _CData, /) -> int: ...
    def http1_parse_head_at(self, buf: bytes, at: int, len: int, scanned: int, head: _CData, /) -> int: ...
    def http1_decode_chunked(self, body: _CData, buf: _CData, len: int, dst: _CData, /) -> int: ...
    def http1_decode_chunked_at(self, body: _CData, buf: bytes, at: int, len: int, dst: _CData, /) -> int: ...
    # known.h
    def known_parse_head(self, known: _CData, buf: _CData, len: int, head: _CData, /) -> int: ...
    def known_hash(self, buf: _CData, head_len: int, /) -> int: ...
    def known_keep(self, known: _CData, buf: _CData, head_len: int, head: _CData, /) -> int: ...
    # uwsgi.h
    def uwsgi_parse_packet(self, buf: _CData, len: int, packet: _CData, /) -> int: ...
    def uwsgi_parse_array(self, buf: _CData, len: int, items: _CData, cap: int, /) -> int: ...
    # scgi.h
    def scgi_parse_head(self, buf: _CData, len: int, head: _CData, /) -> int: ...
    # load_board.h
    def load_board_add(self, board: _CData, shift: int, count: int, /) -> None: ...
    def load_board_quota(self, board: _CData, /) -> int: ...
    def load_board_is_due(self, board: _CData, /) -> int: ...
    def load_board_leave(self, board: _CData, /) -> None: ...
    # in_flight.h
    def in_flight_describe(self, entry: _CData, vars: bytes, vars_len: int, /) -> None: ...
    def in_flight_set(self, entry: _CData, since: int, /) -> None: ...
    # lane.h
    def lane_available(self, /) -> int: ...
    def lane_open(self, set: _CData, /) -> int: ...
    def lane_close(self, set: _CData, /) -> None: ...
    def lane_unlisten(self, set: _CData, i: int, /) -> None: ...
    def lane_poll(self, set: _CData, timeout_ms: int, /) -> int: ...
    def lane_wake(self, set: _CData, /) -> None: ...
    def lane_watch(self, set: _CData, /) -> None: ...
    def lane_reply(
        self, set: _CData, fd: int, head: bytes, head_len: int, body: bytes, body_len: int, keep: int, /
    ) -> int: ...
    def lane_has_left(self, set: _CData, fd: int, /) -> int: ...
    def lane_release(self, set: _CData, fd: int, /) -> int: ...
    def lane_release_idle(self, set: _CData, out: _CData, cap: int, /) -> int: ...
    def lane_own(self, set: _CData, fd: int, /) -> int: ...
    def lane_left(self, set: _CData, /) -> None: ...
    def lane_adopt(self, set: _CData, fd: int, i: int, /) -> int: ...
    def lane_sweep(self, set: _CData, used_seconds: int, new_seconds: int, /) -> int: ...
    def pump_open(self, set: _CData, /) -> int: ...
    def pump_close(self, set: _CData, /) -> None: ...
    def pump_add(
        self, set: _CData, i: int, fd: int, head: _CData, head_len: int, body: _CData, file_fd: int, offset: int, count: int,
        unsent_before: int, /,
    ) -> None: ...  # fmt: skip
    def pump_run(self, set: _CData, /) -> int: ...
    def pump_wake(self, set: _CData, /) -> None: ...
    def lane_evict_idle(self, set: _CData, /) -> int: ...
    # sockets.h
    def sockets_local_address(self, fd: int, out: _CData, cap: int, /) -> int: ...
    # subreaper.h
    def subreaper_begin(self) -> int: ...
    def parent_death_signal(self, number: int) -> int: ...
    def signal_stack(self, octets: int) -> int: ...
    def signal_handler(self, number: int) -> int: ...

ffi: _FFI
lib: _Lib
