/* http1.h -- HTTP/1.1 request heads and chunked bodies.
 * Grammar: RFC 9112.  Field syntax: RFC 9110 section 5.
 * No allocation, no globals, no I/O.  Safe to call from any thread. */
#ifndef ASERVE_HTTP1_H
#define ASERVE_HTTP1_H
#include "aserve.h"
/* cdef:begin */

/* Bits of http1_head.flags.  A head with neither body nor surprises has
 * exactly KEEP_ALIVE | VERSION_1_1, so that the caller can test it at once. */
enum {
    HTTP1_KEEP_ALIVE = 1,       /* RFC 9112 section 9.3 */
    HTTP1_VERSION_1_1 = 2,      /* HTTP/1.1 or a later 1.x */
    HTTP1_HEAD = 4,             /* the method is HEAD */
    HTTP1_LENGTH = 8,           /* Content-Length present and above 0 */
    HTTP1_CHUNKED = 16,         /* RFC 9112 section 7.1 */
    HTTP1_EXPECT_CONTINUE = 32, /* RFC 9110 section 10.1.1; 1.1 only */
    HTTP1_FORWARDED = 64,       /* Forwarded, X-Forwarded* or X-Real-IP, in
                                   which proxies describe their client */
    HTTP1_WEBSOCKET = 128,      /* RFC 6455 section 4.2.1, as far as HTTP goes:
                                   a GET of 1.1 without a body that asks for an
                                   upgrade to websocket */
    HTTP1_DROPPED = 256         /* a field is in no var: see vars.h */
};

/* Pairs that stand for the request line. */
enum { HTTP1_LINE_VARS = 5 };

typedef struct {
    /* set by the caller, once */
    char *vars;        /* scratch; 2 * max_head_len + 256 always suffices */
    uint32_t vars_cap; /* octets; vars_len + 1 is the least that does */
    uint32_t max_line_len; /* request line, CRLF not counted: 414 */
    uint32_t max_head_len; /* whole head, final CRLF CRLF counted: 431;
                              at most 2^31 - 1 */
    uint32_t max_fields;   /* field lines: 431 */
    /* set by http1_parse_head when it returns > 0 */
    uint64_t content_length; /* octets; 0 without HTTP1_LENGTH */
    uint32_t vars_len;       /* octets written to `vars`, no NUL at the end */
    uint32_t nvars;          /* name/value pairs written to `vars` */
    uint32_t flags;          /* HTTP1_* */
    uint32_t fields_off;     /* the pairs of fields begin here in `vars`,
                                after HTTP1_LINE_VARS of the request line */
} http1_head;

/* Parse one request head at buf[0 .. len).
 * `scanned`: octets an earlier INCOMPLETE call saw (the len of that call),
 * so that a dripping client costs linear time.  At most `len`.
 * Writes NAME NUL VALUE NUL NAME NUL VALUE ... to head->vars: first
 * REQUEST_METHOD, REQUEST_URI (the raw target), PATH_INFO (percent-decoded),
 * QUERY_STRING (raw), SERVER_PROTOCOL, in this order, then one pair for each
 * field line in the order of the wire: see vars.h for the names.  The
 * authority of an absolute-form target stands in place of the Host value, or
 * in a last HTTP_HOST pair if HTTP/1.0 sent no Host (RFC 9112 section 3.2.2).
 * Returns octets consumed (> 0), ASERVE_INCOMPLETE, or an error: any in
 * aserve.h but those of chunks and trailers.  An error does not depend on how
 * the octets were split; http1.c lists which comes first. */
int http1_parse_head(const char *buf, size_t len, size_t scanned,
                     http1_head *head);

/* The same for the octets from buf[at] on: buf[at .. at + len).  For callers
 * that have no pointer into the middle of their octets: cffi's from_buffer()
 * copies them on PyPy, and frees the copy when the collector comes by. */
int http1_parse_head_at(const char *buf, size_t at, size_t len, size_t scanned,
                        http1_head *head);

/* A chunked body's decoder.  Valid when zero-filled, but for the limits. */
typedef struct {
    uint32_t max_extension_len; /* octets of one chunk's extensions: 400 */
    uint32_t max_trailer_len;   /* octets of the trailer section: 431 */
    /* set by http1_decode_chunked on every call that returns >= 0 */
    uint32_t produced; /* octets written to dst by this call */
    uint32_t done;     /* 1: the final CRLF has been consumed */
    /* private */
    uint64_t size; /* octets of this chunk still to come */
    uint32_t used; /* digits of this size, octets of its extension, or of the
                      trailers */
    uint32_t state;
} http1_chunked;

/* Decode buf[0 .. len) of a chunked body (RFC 9112 section 7.1); write the
 * content to dst, which has room for `len` octets and may be buf itself.
 * `len` is at most 2^31 - 1.  Trailer fields are checked and dropped.
 * Returns octets consumed: all of `len`, or fewer once `done`; or an error:
 * BARE_LF, BARE_CR, BAD_CHUNK_*, LONG_CHUNK_EXTENSION, BAD_TRAILER or
 * TRAILERS_TOO_LARGE (never ASERVE_INCOMPLETE: done == 0 says it).  After an
 * error the decoder is of no further use. */
int http1_decode_chunked(http1_chunked *body, const char *buf, size_t len,
                         char *dst);

/* The same for buf[at .. at + len): see http1_parse_head_at. */
int http1_decode_chunked_at(http1_chunked *body, const char *buf, size_t at,
                            size_t len, char *dst);

/* cdef:end */
#endif
