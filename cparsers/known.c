/* known.c -- RFC 9112 section 2.1 again, for a field section that is equal,
 * octet for octet, to one that was parsed: only its request line is read.
 *
 * Two things of a head depend on both, request line and fields: the authority
 * of an absolute-form takes the place of Host, and a GET may ask for a
 * WebSocket.  The first is left to http1_parse_head, and its section is not
 * kept.  For the second, a section is kept only of a GET, and of a request with
 * a body, which can ask for none: as the flags of either have no
 * HTTP1_WEBSOCKET, those of no request with the section have. */
#include <string.h>
#include "chars.h"
#include "known.h"
#include "request_line.h"

enum {
    PLAIN = HTTP1_KEEP_ALIVE | HTTP1_VERSION_1_1,
    ALLOWED = HTTP1_LENGTH | HTTP1_FORWARDED | HTTP1_DROPPED
};

/* Where the field section begins: behind the first LF; NULL: nowhere. */
static const char *find_section(const char *buf, size_t len)
{
    const char *lf = memchr(buf, LF, len);

    return lf == NULL || lf == buf || lf[-1] != CR ? NULL : lf + 1;
}

int known_parse_head(const known_section *known, const char *buf, size_t len,
                     http1_head *head)
{
    const char *section = find_section(buf, len);
    aserve_vars vars = {.buf = head->vars, .cap = head->vars_cap};
    size_t head_len;
    request_line line;

    if (section == NULL || known->raw_len == 0 ||
        (size_t)(buf + len - section) < known->raw_len ||
        memcmp(section, known->raw, known->raw_len) != 0)
        return 0;
    head_len = (size_t)(section - buf) + known->raw_len;
    if (head_len > head->max_head_len ||
        (size_t)(section - 2 - buf) > head->max_line_len)
        return 0;
    if (parse_request_line(buf, section - 2, &line) != 0 || line.minor == 0 ||
        line.authority.p != NULL || append_request_line(&vars, &line) != 0 ||
        vars.cap - vars.len < known->vars_len)
        return 0;
    memcpy(vars.buf + vars.len, known->vars, known->vars_len);
    head->content_length = known->content_length;
    head->vars_len = vars.len + known->vars_len - 1;
    head->nvars = vars.n + known->nvars;
    head->flags = known->flags;
    head->fields_off = vars.len;
    if (is_exactly(line.method, "HEAD"))
        head->flags |= HTTP1_HEAD;
    return (int)head_len;
}

uint16_t known_hash(const char *buf, size_t head_len)
{
    const char *p = find_section(buf, head_len);
    uint64_t hash, part;
    uint16_t folded;

    if (p == NULL)
        return 1;
    hash = head_len -= (size_t)(p - buf);
    for (; head_len >= sizeof part; head_len -= sizeof part) {
        memcpy(&part, p, sizeof part);
        p += sizeof part;
        /* The multiplier of Knuth's multiplicative hashing: 2^64 / phi. */
        hash = (hash ^ part) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    folded = (uint16_t)(hash >> 48);
    return folded == 0 ? 1 : folded;
}

/* Whether a field of credentials is among the pairs [p, end), each NAME NUL
 * VALUE NUL. */
static int has_credentials(const char *p, const char *end)
{
    static const char suffix[] = "AUTHORIZATION";
    const size_t suffix_len = sizeof suffix - 1;

    while (p < end) {
        size_t name_len = strlen(p);

        if (name_len >= suffix_len &&
            memcmp(p + name_len - suffix_len, suffix, suffix_len) == 0)
            return 1;
        p += name_len + 1;
        p += strlen(p) + 1;
    }
    return 0;
}

int known_keep(known_section *known, const char *buf, size_t head_len,
               const http1_head *head)
{
    const char *section = find_section(buf, head_len);
    const char *pairs = head->vars + head->fields_off;
    size_t raw_len, vars_len = head->vars_len + 1 - head->fields_off;
    request_line line;

    if (section == NULL || (head->flags & ~(uint32_t)ALLOWED) != PLAIN ||
        parse_request_line(buf, section - 2, &line) != 0 ||
        line.authority.p != NULL ||
        !(head->flags & HTTP1_LENGTH || is_exactly(line.method, "GET")))
        return 0;
    raw_len = (size_t)(buf + head_len - section);
    if (raw_len > KNOWN_RAW_MAX || vars_len > KNOWN_VARS_MAX ||
        has_credentials(pairs, pairs + vars_len))
        return 0;
    memcpy(known->raw, section, raw_len);
    memcpy(known->vars, pairs, vars_len);
    known->raw_len = (uint32_t)raw_len;
    known->vars_len = (uint32_t)vars_len;
    known->nvars = head->nvars - HTTP1_LINE_VARS;
    known->flags = head->flags;
    known->content_length = head->content_length;
    return 1;
}
