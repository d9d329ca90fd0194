"""Tests of the marker `also_http2`, and files of corpus/desync, without a meaning over HTTP/2; the reason, and the guard there instead."""

CHUNKS = "DATA frames have no chunks; Transfer-Encoding is malformed (corpus/desync, te-*)"
LINES = "a head is a field section, without lines; octets that would end one: corpus/desync, lf-* and cr-*"
VERSIONS = "a stream has no version"
ABSOLUTE = (
    "scheme, authority and path are fields of their own, and the target is the path (tests/protocols/test_http2.py)"
)
STREAM_ENDS = "a stream says itself where it ends; the end of the connection: test_session_ends.py"
ENDS = "a refusal ends its stream, and no connection; the same requests: corpus/desync"

# By the name of the test.
NOT_OVER_HTTP2 = {
    "test_malformed_requests_are_refused": CHUNKS,
    "test_two_framings_end_the_connection": CHUNKS,
    "test_malformed_heads_get_a_400": LINES,
    "test_http_0_9": LINES,
    "test_bad_hosts_get_a_400": ENDS,
    "test_bad_targets_get_a_400": ENDS,
    "test_an_absolute_form_overrides_host": ABSOLUTE,
    "test_date_in_every_answer": "its refusals are those of HTTP/1.1; test_a_pair_leaves_no_request_behind of test_desync.py asks each answer for its Date",
    "test_dripping_buys_a_head_no_time": "it comes in frames: tests/features/http2/test_session_times.py",
    "test_incomplete_requests_are_answered_408": "a head that does not come: tests/features/http2/test_session_times.py; a body: there, too, as it ends no connection",
    "test_close_is_obeyed": "there is no Connection field, nor HTTP/1.0; the end of a connection: test_session_ends.py",
}
# By the beginning of the name of a file of corpus/desync.
FILES_NOT_OVER_HTTP2 = {
    "absolute-form": ABSOLUTE,
    "answer-to-upgrade-with-chunks": CHUNKS,
    "bad-behind-good": LINES,
    "body-behind-get": LINES,
    "body-over-the-limit-in-chunks": CHUNKS,
    "chunk-": CHUNKS,
    "cr-first": LINES,
    "empty-line-": LINES,
    "eof-": STREAM_ENDS,
    "field-without-colon": LINES,
    "host-space-before-colon": LINES,
    "http-1-0-": VERSIONS,
    "lf-first": LINES,
    "line-http2-preface": VERSIONS,
    "line-space-": LINES,
    "line-tls": LINES,
    "line-two-spaces": LINES,
    "line-version-": VERSIONS,
}
