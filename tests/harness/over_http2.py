"""Which tests of the marker `also_http2` have no meaning over HTTP/2, and why; what they guard there instead."""

from __future__ import annotations

CHUNKS = "DATA frames have no chunks; Transfer-Encoding is malformed (corpus/desync, te-*)"
LINES = "a head is a field section, without lines; octets that would end one: corpus/desync, lf-* and cr-*"
ENDS = "a refusal ends its stream, and no connection; the same requests: corpus/desync"

# By the name of the test.
NOT_OVER_HTTP2 = {
    "test_malformed_requests": CHUNKS,
    "test_two_framings": CHUNKS,
    "test_malformed_heads": LINES,
    "test_http_0_9": LINES,
    "test_bad_hosts": ENDS,
    "test_bad_targets": ENDS,
    "test_absolute_form": "scheme, authority and path are fields of their own, and the target is the path",
    "test_date_in_every_answer": "its refusals are those of HTTP/1.1; test_directly of test_desync.py asks each answer for its Date",
    "test_incomplete_requests": "a head that does not come: tests/features/http2/test_session_times.py; a body: there, too, as it ends no connection",
    "test_dripping_head": "it comes in frames: tests/features/http2/test_session_times.py",
    "test_lingering_is_not_for_ever": "there is no Connection field; the end of a connection: test_session_ends.py",
    "test_close_is_obeyed": "there is no Connection field, nor HTTP/1.0; the end of a connection: test_session_ends.py",
}
