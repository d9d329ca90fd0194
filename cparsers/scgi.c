/* scgi.c -- the head of an SCGI request.
 *
 * The length is read anew by each call, the vars once all of them are there;
 * so a call on an incomplete head costs the same whatever has come of it.
 *
 * Which fault is reported when there are several; this order does not depend
 * on how the octets were split:
 *   1. the first, in the order of the wire, of: no netstring at all; a bad
 *      length; a length over the limit; a length of 0;
 *   2. no comma after the vars;
 *   3. the first, in the order of the wire, of: a pair too many; a name or
 *      value without its NUL; an empty name; a first name other than
 *      CONTENT_LENGTH; a bad CONTENT_LENGTH; one that is less than before;
 *      a vars buffer too small for SCGI and the request's own vars;
 *   4. no SCGI with the value 1, or one with another;
 *   5. a CONTENT_LENGTH that is less than HTTP_CONTENT_LENGTH;
 *   6. a vars buffer too small for all. */
#include <assert.h>
#include <limits.h>
#include <string.h>
#include "octets.h"
#include "scgi.h"
#include "vars.h"

/* The facts about the request from its vars. */
typedef struct {
    aserve_vars vars;
    uint64_t content_length;
    uint64_t client_length; /* the largest HTTP_CONTENT_LENGTH */
    uint32_t npairs;
    int is_scgi_1;
    int is_other_scgi;
} request;

/* notnull* NUL
 * Returns where the run ends, after its NUL; NULL if there is none. */
static const char *read_run(const char *p, const char *end, octets *run)
{
    run->p = p;
    run->end = memchr(p, '\0', (size_t)(end - p));
    return run->end == NULL ? NULL : run->end + 1;
}

/* protocol.txt section 3: the first var, whose digits are the body's length */
static int take_length(request *all, octets value)
{
    if (length(value) == 0 ||
        read_number(value.p, value.end, &all->content_length) != value.end)
        return ASERVE_BAD_CONTENT_LENGTH;
    return vars_append(&all->vars, "CONTENT_LENGTH", 14, value.p,
                       length(value));
}

/* Put a larger length into the first pair, which is CONTENT_LENGTH's; zeros
 * that stood before the digits stay, so that the pair gets no shorter. */
static int replace_length(aserve_vars *vars, octets value)
{
    char *old = vars->buf + sizeof "CONTENT_LENGTH";
    size_t old_len = strlen(old);
    size_t more = length(value) > old_len ? length(value) - old_len : 0;
    size_t tail_len = vars->len - sizeof "CONTENT_LENGTH" - old_len;

    if (more > vars->cap - vars->len)
        return ASERVE_VARS_FULL;
    memmove(old + old_len + more, old + old_len, tail_len);
    memset(old, '0', old_len + more);
    memcpy(old + old_len + more - length(value), value.p, length(value));
    vars->len += (uint32_t)more;
    return 0;
}

/* Lenient: protocol.txt section 3: "Duplicate names are not allowed in the
 * headers."  Locations made for uwsgi list CONTENT_LENGTH, and nginx sends
 * one of its own.  A repeat that is empty or says the same is dropped.
 * With scgi_request_buffering off nginx counts the octets of the body received
 * by then, mostly 0: a location may give the whole length after that.
 * No other request follows on the connection, so a longer length is safe. */
static int check_length(request *all, octets value)
{
    uint64_t content_length;

    if (length(value) == 0)
        return 0;
    if (read_number(value.p, value.end, &content_length) != value.end)
        return ASERVE_BAD_CONTENT_LENGTH;
    if (content_length == all->content_length)
        return 0;
    if (content_length < all->content_length)
        return ASERVE_REPEATED_VAR;
    all->content_length = content_length;
    return replace_length(&all->vars, value);
}

/* The client's own field, which front servers pass on.  It is not obeyed: if a
 * body is shorter, it is unknown whether the rest will come. */
static void note_client_length(request *all, octets value)
{
    uint64_t client_length;

    if (length(value) > 0 &&
        read_number(value.p, value.end, &client_length) == value.end &&
        client_length > all->client_length)
        all->client_length = client_length;
}

/* protocol.txt section 3: "SCGI" with the value "1"
 * Lenient: repeated for the reason above; the first "1" is kept. */
static int take_scgi(request *all, octets value)
{
    if (!is_exactly(value, "1")) {
        all->is_other_scgi |= length(value) > 0;
        return 0;
    }
    if (all->is_scgi_1)
        return 0;
    all->is_scgi_1 = 1;
    return vars_append(&all->vars, "SCGI", 4, value.p, 1);
}

/* Record the meaning of one var for the request; append its pair if it is SCGI
 * or the request's own.
 * Lenient: repeats of any other name are kept, as on uwsgi.  The last of them
 * wins, but a client's fields are joined (RFC 9110 section 5.3): nginx before
 * 1.23 passes those of one name one by one. */
static int take_var(request *all, octets name, octets value)
{
    if (is_exactly(name, "CONTENT_LENGTH"))
        return all->npairs == 1 ? take_length(all, value)
                                : check_length(all, value);
    if (all->npairs == 1)
        return ASERVE_LENGTH_NOT_FIRST;
    if (is_exactly(name, "SCGI"))
        return take_scgi(all, value);
    if (is_exactly(name, "HTTP_CONTENT_LENGTH"))
        note_client_length(all, value);
    if (!vars_is_own(name.p, length(name)))
        return 0;
    return vars_append(&all->vars, name.p, length(name), value.p,
                       length(value));
}

/* Append the others, once all pairs are known to be good. */
static int append_others(aserve_vars *vars, const char *p, const char *end)
{
    int code = 0;

    while (p < end && code == 0) {
        octets name = {p, p};
        octets value = {p, p};

        p = read_run(read_run(p, end, &name), end, &value);
        if (!is_exactly(name, "SCGI") && !vars_is_own(name.p, length(name)))
            code = vars_append_cgi(vars, name.p, length(name), value.p,
                                   length(value));
    }
    return code;
}

/* protocol.txt section 3: headers ::= header*
 *                         header ::= name NUL value NUL
 *                         name ::= notnull+    value ::= notnull* */
static int parse_vars(const char *p, const char *end, scgi_head *head)
{
    request all = {
        .vars = {.buf = head->vars, .cap = head->vars_cap},
    };
    const char *begin = p;
    int code;

    while (p < end) {
        octets name;
        octets value;

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
    if (!all.is_scgi_1 || all.is_other_scgi)
        return ASERVE_NO_SCGI_1;
    if (all.client_length > all.content_length)
        return ASERVE_LENGTH_CONTRADICTED;
    head->nfirst = all.vars.n;
    code = append_others(&all.vars, begin, end);
    if (code != 0)
        return code;
    head->content_length = all.content_length;
    head->vars_len = all.vars.len - 1;
    head->nvars = all.vars.n;
    return 0;
}

/* protocol.txt section 2: a netstring's length and ":"
 * Reads no digit after the one that takes the length over the limit.
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
