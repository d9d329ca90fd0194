/* fields.h -- field lines, and the few fields that the server obeys. */
#ifndef ASERVE_FIELDS_H
#define ASERVE_FIELDS_H
#include "octets.h"
#include "vars.h"

/* The facts about the message from its field lines. */
typedef struct {
    aserve_vars vars;
    octets authority;    /* replaces the value of Host unless p == NULL */
    octets content_type; /* the first; p == NULL: none yet */
    uint64_t content_length;
    uint32_t nfields;
    uint32_t nhosts;
    uint32_t nlengths;
    uint32_t nencodings; /* Transfer-Encoding field lines */
    uint32_t ncodings;   /* elements in them all */
    uint32_t nchunked;   /* those that are "chunked" */
    int last_is_chunked;
    int malformed_encoding;
    int close;
    int keep_alive;
    int upgrade;   /* Connection: upgrade */
    int websocket; /* Upgrade: websocket */
    int expect_continue;
    int unknown_expectation;
    int forwarded; /* a field in which proxies describe the client */
} fields;

/* Parse the field line at p and its CRLF, both before `end`; record its
 * meaning in `all`, append its pair to all->vars; *next is set after it.
 * Returns 0, ASERVE_OBS_FOLD, BAD_FIELD_NAME, SPACE_BEFORE_COLON,
 * BAD_FIELD_VALUE, REPEATED_HOST, BAD_HOST, REPEATED_CONTENT_LENGTH,
 * BAD_CONTENT_LENGTH, REPEATED_CONTENT_TYPE or VARS_FULL. */
int parse_field_line(fields *all, const char *p, const char *end,
                     const char **next);

/* RFC 9112 section 6.3: is there one way only to read the body's length?
 * Returns 0, ASERVE_ENCODING_IN_1_0, LENGTH_AND_ENCODING,
 * BAD_TRANSFER_ENCODING or UNKNOWN_CODING. */
int check_framing(const fields *all, int minor);

#endif
