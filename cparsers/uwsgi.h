/* uwsgi.h -- packets of the uwsgi protocol: a request's vars, and arrays.
 * Spec: uwsgi-docs Protocol.rst.  u8 modifier1, u16le datasize, u8 modifier2,
 * then `datasize` octets, then the request body of CONTENT_LENGTH octets.
 * No allocation, no globals, no I/O.  Safe to call from any thread. */
#ifndef ASERVE_UWSGI_H
#define ASERVE_UWSGI_H
#include "aserve.h"
/* cdef:begin */

/* modifier1 values that we serve; every other is for the caller to refuse. */
enum {
    UWSGI_WSGI = 0,        /* vars of a request */
    UWSGI_WSGI_MOUNT = 30, /* the same; SCRIPT_NAME is taken off PATH_INFO */
    UWSGI_PING = 100,
    UWSGI_RPC = 173
};

typedef struct {
    /* set by the caller, once */
    char *vars;              /* scratch */
    uint32_t vars_cap;       /* octets; max_packet_len always suffices, and
                                vars_len + 1 is the least that does */
    uint32_t max_packet_len; /* datasize: 431 */
    uint32_t max_vars;       /* pairs on the wire, dropped ones too: 431 */
    /* set by uwsgi_parse_packet when it returns > 0 */
    uint64_t content_length; /* CONTENT_LENGTH's leading digits; 0 without */
    uint32_t vars_len;       /* octets written to `vars`, no NUL at the end */
    uint32_t nvars;          /* pairs written to `vars`; 0: none, and no octet
                                either */
    uint32_t modifier1;
    uint32_t modifier2;
    uint32_t nfirst; /* how many of the pairs come first: see vars.h */
} uwsgi_packet;

/* Parse one packet at buf[0 .. len), where a connection begins; call again
 * with more octets while it is INCOMPLETE.  The data are looked at only once
 * all of them are there, so all calls together cost linear time.
 * The modifiers decide on the meaning of the data:
 * - WSGI, WSGI_MOUNT, and RPC with modifier2 2: vars.  NAME NUL VALUE NUL ...
 *   goes to packet->vars: first the request's own, then the others, each in
 *   the order of the wire, octets unchanged, repeated names too (the last
 *   counts, also for content_length); vars.h says which are own, and what is
 *   dropped.
 * - PING, and RPC with any other modifier2: octets at buf + 4, not looked at;
 *   nvars, vars_len and content_length are 0.  RPC's are uwsgi_parse_array's.
 * - any other modifier1: 4 is returned once the header is there, whatever
 *   datasize says, so that the caller can refuse without waiting.
 * TLS is ASERVE_NOT_UWSGI at its second octet, HTTP at its fourth; a datasize
 * over the limit is ASERVE_PACKET_TOO_LARGE at the fourth octet.
 * Returns octets consumed (> 0), ASERVE_INCOMPLETE, NOT_UWSGI,
 * PACKET_TOO_LARGE, TOO_MANY_VARS, VAR_OVERRUN, EMPTY_NAME, NUL_IN_VAR,
 * BAD_CONTENT_LENGTH or VARS_FULL.  An error does not depend on how the
 * octets were split; uwsgi.c lists which comes first. */
int uwsgi_parse_packet(const char *buf, size_t len, uwsgi_packet *packet);

/* Split an array (RPC, modifier2 other than 2) of `len` octets, at most
 * 2^31 - 1: { u16le length, octets }*; empty items are skipped, as uWSGI
 * does.  Writes at most `cap` spans, relative to buf.
 * Returns the number of items, or the first, in the order of the wire, of
 * ASERVE_VAR_OVERRUN and ASERVE_TOO_MANY_VARS (over `cap`). */
int uwsgi_parse_array(const char *buf, size_t len, aserve_span *items,
                      uint32_t cap);

/* cdef:end */
#endif
