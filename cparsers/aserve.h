/* aserve.h -- shared by all parsers: spans, result codes, their statuses.
 * No allocation, no globals that change, no I/O.  Safe from any thread. */
#ifndef ASERVE_H
#define ASERVE_H
#include <stddef.h>
#include <stdint.h>
/* cdef:begin */

/* Octets [off, off + len) of the caller's input buffer. */
typedef struct {
    uint32_t off;
    uint32_t len;
} aserve_span;

/* A parser returns octets consumed (>= 0) or one of these.  The number in
 * each comment is the HTTP status that answers it; 0: no answer, wait.  Clauses
 * are of the RFCs, uwsgi-docs Protocol.rst and python.ca/scgi/protocol.txt. */
enum {
    ASERVE_INCOMPLETE = -1,               /*   0 need more octets */
    ASERVE_BAD_METHOD = -2,               /* 400 RFC 9110 9.1 */
    ASERVE_BAD_TARGET = -3,               /* 400 RFC 9112 3.2 */
    ASERVE_BAD_PERCENT = -4,              /* 400 RFC 3986 2.1 */
    ASERVE_BAD_REQUEST_LINE = -5,         /* 400 RFC 9112 3 */
    ASERVE_BAD_VERSION = -6,              /* 400 RFC 9112 2.3 */
    ASERVE_UNSUPPORTED_VERSION = -7,      /* 505 RFC 9110 15.6.6 */
    ASERVE_UNSUPPORTED_METHOD = -8,       /* 501 RFC 9112 3; CONNECT */
    ASERVE_BARE_LF = -9,                  /* 400 RFC 9112 2.2 */
    ASERVE_BARE_CR = -10,                 /* 400 RFC 9112 2.2 */
    ASERVE_OBS_FOLD = -11,                /* 400 RFC 9112 5.2 */
    ASERVE_BAD_FIELD_NAME = -12,          /* 400 RFC 9112 5 */
    ASERVE_SPACE_BEFORE_COLON = -13,      /* 400 RFC 9112 5.1 */
    ASERVE_BAD_FIELD_VALUE = -14,         /* 400 RFC 9110 5.5 */
    ASERVE_MISSING_HOST = -15,            /* 400 RFC 9112 3.2 */
    ASERVE_REPEATED_HOST = -16,           /* 400 RFC 9112 3.2 */
    ASERVE_BAD_HOST = -17,                /* 400 RFC 9112 3.2 */
    ASERVE_BAD_CONTENT_LENGTH = -18,      /* 400 RFC 9112 6.3 */
    ASERVE_REPEATED_CONTENT_LENGTH = -19, /* 400 RFC 9112 6.3 */
    ASERVE_LENGTH_AND_ENCODING = -20,     /* 400 RFC 9112 6.1 */
    ASERVE_BAD_TRANSFER_ENCODING = -21,   /* 400 RFC 9112 6.3 */
    ASERVE_UNKNOWN_CODING = -22,          /* 501 RFC 9112 6.1 */
    ASERVE_ENCODING_IN_1_0 = -23,         /* 400 RFC 9112 6.1 */
    ASERVE_UNKNOWN_EXPECTATION = -24,     /* 417 RFC 9110 10.1.1 */
    ASERVE_TARGET_TOO_LONG = -25,         /* 414 RFC 9110 15.5.15 */
    ASERVE_HEAD_TOO_LARGE = -26,          /* 431 RFC 6585 5 */
    ASERVE_TOO_MANY_FIELDS = -27,         /* 431 RFC 6585 5 */
    ASERVE_BAD_CHUNK_SIZE = -28,          /* 400 RFC 9112 7.1 */
    ASERVE_BAD_CHUNK_EXTENSION = -29,     /* 400 RFC 9112 7.1.1 */
    ASERVE_LONG_CHUNK_EXTENSION = -30,    /* 400 RFC 9112 7.1.1 */
    ASERVE_BAD_CHUNK_END = -31,           /* 400 RFC 9112 7.1 */
    ASERVE_BAD_TRAILER = -32,             /* 400 RFC 9112 7.1.2 */
    ASERVE_TRAILERS_TOO_LARGE = -33,      /* 431 RFC 6585 5 */
    ASERVE_VARS_FULL = -34,               /* 500 the caller's buffer: ours */
    ASERVE_NOT_UWSGI = -35,               /* 400 Protocol.rst */
    ASERVE_NOT_SCGI = -36,                /* 400 SCGI 2 */
    ASERVE_BAD_NETSTRING = -37,           /* 400 SCGI 2 */
    ASERVE_LENGTH_NOT_FIRST = -38,        /* 400 SCGI 3 */
    ASERVE_NO_SCGI_1 = -39,               /* 400 SCGI 3 */
    ASERVE_REPEATED_VAR = -40,            /* 400 SCGI 3 */
    ASERVE_EMPTY_NAME = -41,              /* 400 Protocol.rst; SCGI 3 */
    ASERVE_VAR_OVERRUN = -42,             /* 400 Protocol.rst; SCGI 3 */
    ASERVE_NUL_IN_VAR = -43,              /* 400 Protocol.rst; ours */
    ASERVE_TOO_MANY_VARS = -44,           /* 431 RFC 6585 5 */
    ASERVE_PACKET_TOO_LARGE = -45,        /* 431 RFC 6585 5 */
    ASERVE_REPEATED_CONTENT_TYPE = -46,   /* 400 RFC 9110 8.3 */
    ASERVE_LENGTH_CONTRADICTED = -47,     /* 400 SCGI 3 */
    ASERVE_LAST_ERROR = -47
};

/* Returns the HTTP status that answers `code`; 0 for INCOMPLETE and unknown
 * codes. */
int aserve_status(int code);

/* Returns the error as one lower-case English phrase without a full stop,
 * naming the clause: "field name is not a token (RFC 9112 section 5)".  Not
 * NULL. */
const char *aserve_strerror(int code);

/* cdef:end */
#endif
