/* taken.h -- the pairs of the vars that C takes out before it makes the
 * environ: fields in which proxies describe their client, and the request's name.
 *
 * The twins are strip_forwarded of aserve/proxies/forwarded.py, and _find of
 * aserve/wsgi/request_id.py.  The rest is the same each time for many clients;
 * the values of the taken pairs are put after the dict that it begins. */
#ifndef NATIVE_TAKEN_H
#define NATIVE_TAKEN_H

#include "text.h"

enum {
    TAKEN_VARS_MAX = 8192, /* octets; a request with more is not plain */
    TAKEN_WORDS_MAX = 512  /* the same of a believed peer's words */
};

/* The taken pairs. */
enum {
    TAKEN_FORWARDED = 1, /* Forwarded, X-Forwarded*, X-Real-IP */
    TAKEN_ID = 2         /* X-Request-ID */
};

typedef struct {
    octets id;         /* of the block, as it came; .at NULL: there is none */
    size_t size;       /* of the rest */
    size_t words_size; /* above TAKEN_WORDS_MAX: there is no room */
    char rest[TAKEN_VARS_MAX];
    char words[TAKEN_WORDS_MAX]; /* Host, and TAKEN_FORWARDED: pairs */
} taken_vars;

/* Take pairs out of a block whose first `nfirst` pairs are the request's own.
 * Returns 1; 0: not plain. */
int taken_out(octets vars, uint32_t nfirst, int what, taken_vars *to);

#endif
