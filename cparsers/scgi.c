/* scgi.c -- the head of an SCGI request.
 *
 * The length is read anew by each call, the vars once all of them are there;
 * so a call on an incomplete head costs the same whatever has come of it.
 *
 * Which fault is reported when there are several; this order does not depend
 * on how the octets were split:
 *   1. the first, in the order of the wire, of: no netstring at all; a bad
 *      length; a length over the limit; a length of 0;
 *   2. no comma behind the vars;
 *   3. the first, in the order of the wire, of: a pair too many; a name or
 *      value without its NUL; an empty name; a first name other than
 *      CONTENT_LENGTH; a repeated name; a bad CONTENT_LENGTH; a full vars
 *      buffer;
 *   4. no SCGI with the value 1. */
#include <assert.h>
#include <limits.h>
#include <string.h>
#include "octets.h"
#include "scgi.h"
#include "vars.h"

/* A filter of the names seen: 1024 bits. */
enum { SEEN_BITS = 10, SEEN_WORDS = 1 << (SEEN_BITS - 6) };

/* What the vars said of the request. */
typedef struct {
    aserve_vars vars;
    const char *first; /* where the vars begin on the wire */
    uint64_t seen[SEEN_WORDS];
    uint64_t content_length;
    uint32_t npairs;
    int is_scgi_1;
} request;

/* notnull* NUL
 * Returns where the run ends, behind its NUL; NULL if there is none. */
static const char *read_run(const char *p, const char *end, octets *run)
{
    run->p = p;
    run->end = memchr(p, '\0', (size_t)(end - p));
    return run->end == NULL ? NULL : run->end + 1;
}

/* A number below 2^SEEN_BITS, of the length and the last octets of a name:
 * nearly all begin with HTTP_. */
static uint32_t hash(octets name)
{
    uint64_t tail = 0;
    size_t tail_len = length(name) < sizeof tail ? length(name) : sizeof tail;

    memcpy(&tail, name.end - tail_len, tail_len);
    tail ^= (uint64_t)length(name);
    /* The odd number is 2^64 over the golden ratio (Knuth, volume 3, 6.4). */
    return (uint32_t)(tail * UINT64_C(0x9e3779b97f4a7c15) >> (64 - SEEN_BITS));
}

/* protocol.txt section 3: "Duplicate names are not allowed in the headers."
 * Only a name whose bit is set already is looked for among those before it.
 * Names made to share a bit cost n * n / 2 comparisons, n being max_vars. */
static int is_repeated(request *all, octets name)
{
    uint32_t bit = hash(name);
    uint64_t mask = UINT64_C(1) << bit % 64;
    const char *p = all->first;

    if ((all->seen[bit / 64] & mask) == 0) {
        all->seen[bit / 64] |= mask;
        return 0;
    }
    while (p < name.p) {
        octets earlier;
        octets value;

        p = read_run(p, name.p, &earlier);
        if (length(earlier) == length(name) &&
            memcmp(earlier.p, name.p, length(name)) == 0)
            return 1;
        p = read_run(p, name.p, &value);
    }
    return 0;
}

/* Whether a var is a header field of the client's (RFC 3875 4.1.18). */
static int is_field(octets name)
{
    return length(name) > 5 && memcmp(name.p, "HTTP_", 5) == 0;
}

/* Note what one var means for the request; append its pair. */
static int take_var(request *all, octets name, octets value)
{
    int is_first = name.p == all->first;

    if (is_first && !is_exactly(name, "CONTENT_LENGTH"))
        return ASERVE_LENGTH_NOT_FIRST;
    /* Lenient: nginx before 1.23 passes the repeated fields of an honest
     * client one by one; they are joined as RFC 9110 section 5.3 has it. */
    if (!is_field(name) && is_repeated(all, name))
        return ASERVE_REPEATED_VAR;
    if (is_first &&
        (length(value) == 0 ||
         read_number(value.p, value.end, &all->content_length) != value.end))
        return ASERVE_BAD_CONTENT_LENGTH;
    if (is_exactly(name, "SCGI") && is_exactly(value, "1"))
        all->is_scgi_1 = 1;
    return vars_append_cgi(&all->vars, name.p, length(name), value.p,
                           length(value));
}

/* protocol.txt section 3: headers ::= header*
 *                         header ::= name NUL value NUL
 *                         name ::= notnull+    value ::= notnull* */
static int parse_vars(const char *p, const char *end, scgi_head *head)
{
    request all = {
        .vars = {.buf = head->vars, .cap = head->vars_cap},
        .first = p,
    };

    while (p < end) {
        octets name;
        octets value;
        int code;

        if (all.npairs++ == head->max_vars)
            return ASERVE_TOO_MANY_VARS;
        p = read_run(p, end, &name);
        if (p == NULL)
            return ASERVE_VAR_OVERRUN;
        if (length(name) == 0)
            return ASERVE_EMPTY_NAME;
        p = read_run(p, end, &value);
        if (p == NULL)
            return ASERVE_VAR_OVERRUN;
        code = take_var(&all, name, value);
        if (code != 0)
            return code;
    }
    if (!all.is_scgi_1)
        return ASERVE_NO_SCGI_1;
    head->content_length = all.content_length;
    head->vars_len = all.vars.len - 1;
    head->nvars = all.vars.n;
    return 0;
}

/* protocol.txt section 2: a netstring's length and ":"
 * Reads no digit behind the one that takes the length over the limit.
 * Returns the octets read, ASERVE_INCOMPLETE or an error. */
static int parse_length(const char *buf, size_t len, uint32_t max_head_len,
                        size_t *content_len)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < len; i++) {
        if (buf[i] == ':' && i > 0) {
            *content_len = (size_t)sum;
            /* Not even CONTENT_LENGTH has room in it. */
            return sum == 0 ? ASERVE_LENGTH_NOT_FIRST : (int)(i + 1);
        }
        if (buf[i] < '0' || buf[i] > '9')
            return i == 0 ? ASERVE_NOT_SCGI : ASERVE_BAD_NETSTRING;
        if (i > 0 && sum == 0) /* a leading zero */
            return ASERVE_BAD_NETSTRING;
        sum = sum * 10 + (uint64_t)(buf[i] - '0');
        if (sum > max_head_len)
            return ASERVE_PACKET_TOO_LARGE;
    }
    return ASERVE_INCOMPLETE;
}

int scgi_parse_head(const char *buf, size_t len, scgi_head *head)
{
    size_t content_len;
    const char *end;
    int code;

    assert(head->max_head_len <= INT_MAX - 15);
    code = parse_length(buf, len, head->max_head_len, &content_len);
    if (code < 0)
        return code;
    if (len - (size_t)code <= content_len)
        return ASERVE_INCOMPLETE;
    end = buf + code + content_len;
    if (*end != ',')
        return ASERVE_BAD_NETSTRING;
    code = parse_vars(buf + code, end, head);
    return code != 0 ? code : (int)(end + 1 - buf);
}
