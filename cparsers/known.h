/* known.h -- a cache of field sections: a client sends the same section with
 * each request, so it need not be parsed again.
 * No allocation, no globals, no I/O.  A section belongs to the caller; its
 * functions take one thread at a time. */
#ifndef ASERVE_KNOWN_H
#define ASERVE_KNOWN_H
#include "aserve.h"
#include "http1.h"
/* cdef:begin */

/* Sections above these are not kept: octets on the wire, and of their pairs,
 * each of which has some octets more ("HTTP_").  A browser's have 300 to 1,200,
 * with cookies. */
enum { KNOWN_RAW_MAX = 2048, KNOWN_VARS_MAX = 2560 };

/* One section, and http1_parse_head's results.  Empty when zero-filled.
 */
typedef struct {
    uint64_t content_length;
    uint32_t raw_len;  /* 0: empty */
    uint32_t vars_len; /* with the NUL behind the last pair */
    uint32_t nvars;
    uint32_t flags;  /* http1_head's, but for HTTP1_HEAD */
    char raw[2048];  /* from behind the request line to the empty line */
    char vars[2560]; /* its pairs */
} known_section;

/* Parse the request head at buf[0 .. len) as http1_parse_head does, with the
 * same limits and the same result, if its field section is `known`.
 * Returns octets consumed (> 0), or 0: it is another section, or a request
 * line that takes more than this; http1_parse_head decides. */
int known_parse_head(const known_section *known, const char *buf, size_t len,
                     http1_head *head);

/* A number for the field section of a head of `head_len` octets that was
 * parsed: equal for equal sections, never 0. */
uint16_t known_hash(const char *buf, size_t head_len);

/* Keep the field section of a head of `head_len` octets, as http1_parse_head
 * has just parsed it into `head`.  Not kept, so that `known` stays as it was:
 * a head that depends on more than its section (an absolute-form, an upgrade),
 * one without plain keep-alive, one with credentials (a field name that ends in
 * Authorization), and one that is too long.  Returns 1 when it was kept. */
int known_keep(known_section *known, const char *buf, size_t head_len,
               const http1_head *head);

/* cdef:end */
#endif
