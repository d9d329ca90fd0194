/* scgi.h -- the head of an SCGI request.
 * Spec: python.ca/scgi/protocol.txt (2008).  A netstring of NAME NUL VALUE
 * NUL pairs, CONTENT_LENGTH first and SCGI=1 among them; then the body.
 * No allocation, no globals, no I/O.  Safe to call from any thread. */
#ifndef ASERVE_SCGI_H
#define ASERVE_SCGI_H
#include "aserve.h"
/* cdef:begin */

typedef struct {
    /* set by the caller, once */
    char *vars;            /* scratch */
    uint32_t vars_cap;     /* octets; max_head_len always suffices, and
                              vars_len + 1 is the least that does */
    uint32_t max_head_len; /* the netstring's content: 431; at most
                              2^31 - 16 */
    uint32_t max_vars;     /* pairs on the wire, dropped ones too: 431 */
    /* set by scgi_parse_head when it returns > 0 */
    uint64_t content_length; /* octets of the body */
    uint32_t vars_len;       /* octets written to `vars`, no NUL at the end */
    uint32_t nvars;          /* pairs written to `vars`; 2 at least */
    uint32_t nfirst;         /* how many of them come first: see vars.h */
} scgi_head;

/* Parse one request head at buf[0 .. len), where a connection begins; call
 * again with more octets while it is INCOMPLETE.  The vars are looked at only
 * once all of them are there, so all calls together cost linear time.
 * NAME NUL VALUE NUL ... goes to head->vars: first SCGI and the request's own,
 * then the others, each in the order of the wire, octets unchanged, repeated
 * names too: but CONTENT_LENGTH first and once, whose repeats may say the same,
 * nothing, or more, which counts; SCGI once, whose repeats say the same or
 * nothing.  A client's HTTP_CONTENT_LENGTH above all of them is
 * LENGTH_CONTRADICTED: the front server would send a body that is not read.
 * vars.h says which are own, and what is dropped.
 * A first octet that is no digit is ASERVE_NOT_SCGI at once; a length is
 * ASERVE_PACKET_TOO_LARGE at the digit that takes it over the limit.
 * Returns octets consumed (> 0), ASERVE_INCOMPLETE, NOT_SCGI, BAD_NETSTRING,
 * PACKET_TOO_LARGE, LENGTH_NOT_FIRST, NO_SCGI_1, REPEATED_VAR, TOO_MANY_VARS,
 * VAR_OVERRUN, EMPTY_NAME, BAD_CONTENT_LENGTH, LENGTH_CONTRADICTED or
 * VARS_FULL.  An error does not depend on how the octets were split; scgi.c lists which comes first. */
int scgi_parse_head(const char *buf, size_t len, scgi_head *head);

/* cdef:end */
#endif
