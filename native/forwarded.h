/* forwarded.h -- the fields in which proxies describe their client: taken out
 * of the vars, and what a believed peer's make of the environ.
 *
 * The twins are aserve/proxies/forwarded.py, strip_forwarded, and
 * aserve/proxies/trust.py. */
#ifndef NATIVE_FORWARDED_H
#define NATIVE_FORWARDED_H

#include "text.h"

enum {
    FORWARDED_VARS_MAX = 8192, /* octets; what is longer is not plain */
    FORWARDED_WORDS_MAX = 512  /* the same of a believed peer's words */
};

/* Whether the peer of a connection is believed. */
enum { FORWARDED_UNASKED, FORWARDED_UNBELIEVED, FORWARDED_BELIEVED };

/* Vars without some of their pairs. */
typedef struct {
    size_t size;
    size_t words_size; /* above FORWARDED_WORDS_MAX: there is no room */
    char octets[FORWARDED_VARS_MAX];
    char words[FORWARDED_WORDS_MAX]; /* these pairs, and Host's */
} forwarded_rest;

/* Take the fields out of a block whose first `nfirst` pairs are the request's
 * own.  Returns 1; 0: not plain. */
int forwarded_remove(octets vars, uint32_t nfirst, forwarded_rest *rest);

#endif
