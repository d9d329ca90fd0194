/* uwsgi.c -- packets of the uwsgi protocol.
 *
 * The header is judged as soon as it is there; the data wait until all of
 * them are, so a call on an incomplete packet costs the same whatever has
 * come of it.
 *
 * Which fault is reported when there are several; this order does not depend
 * on how the octets were split:
 *   1. TLS; HTTP; a packet over the limit;
 *   2. the first, in the order of the wire, of: a pair too many; a name or
 *      value that reaches past the packet; an empty name; a NUL in a name or
 *      value; a CONTENT_LENGTH above 2^63 - 1; a vars buffer too small for
 *      the request's own vars;
 *   3. a vars buffer too small for all.
 *
 * Stricter than Protocol.rst: no NUL in a name or value; it ends them in the
 * vars block. */
#include <assert.h>
#include <limits.h>
#include <string.h>
#include "octets.h"
#include "uwsgi.h"
#include "vars.h"

enum { HEADER_LEN = 4, LENGTH_LEN = 2 };

/* modifier2 of UWSGI_RPC: PATH_INFO names the function. */
enum { RPC_BY_PATH = 2 };

/* RFC 8446 section 5.1: a record begins with its type, 22 for a handshake,
 * and a version 3.x.  uWSGI's modifier1 22 runs code: refused anyhow. */
static int begins_tls(const char *buf)
{
    return buf[0] == 0x16 && buf[1] == 0x03;
}

static int is_capital(char octet)
{
    return octet >= 'A' && octet <= 'Z';
}

/* RFC 9112 section 3: a method and SP, or the "HTTP" of a response.  Every
 * method but M-SEARCH has three capitals and then a fourth or the SP.  No
 * modifier that we serve is a capital. */
static int begins_http(const char *buf)
{
    return is_capital(buf[0]) && is_capital(buf[1]) && is_capital(buf[2]) &&
           (is_capital(buf[3]) || buf[3] == SP);
}

static int is_served(uint8_t modifier1)
{
    return modifier1 == UWSGI_WSGI || modifier1 == UWSGI_WSGI_MOUNT ||
           modifier1 == UWSGI_PING || modifier1 == UWSGI_RPC;
}

static int holds_vars(const uwsgi_packet *packet)
{
    return packet->modifier1 == UWSGI_WSGI ||
           packet->modifier1 == UWSGI_WSGI_MOUNT ||
           (packet->modifier1 == UWSGI_RPC &&
            packet->modifier2 == RPC_BY_PATH);
}

/* Protocol.rst: u16le, "16 bit little endian" */
static size_t read_u16le(const char *p)
{
    return (size_t)((uint8_t)p[0] | (uint8_t)p[1] << 8);
}

/* Protocol.rst: a 16-bit length, then as many octets
 * Returns where they end; NULL if that is past `end`. */
static const char *read_run(const char *p, const char *end, octets *run)
{
    size_t left = (size_t)(end - p);
    size_t run_len;

    if (left < LENGTH_LEN)
        return NULL;
    run_len = read_u16le(p);
    if (run_len > left - LENGTH_LEN)
        return NULL;
    run->p = p + LENGTH_LEN;
    run->end = run->p + run_len;
    return run->end;
}

/* Protocol.rst: { key length, key, value length, value }
 * Check the pair at p, both runs before `end`, and append it if it is the
 * request's own; *next is set after it. */
static int parse_var(aserve_vars *vars, const char *p, const char *end,
                     const char **next, uint64_t *content_length)
{
    octets name;
    octets value;

    p = read_run(p, end, &name);
    if (p == NULL)
        return ASERVE_VAR_OVERRUN;
    if (length(name) == 0)
        return ASERVE_EMPTY_NAME;
    p = read_run(p, end, &value);
    if (p == NULL)
        return ASERVE_VAR_OVERRUN;
    if (memchr(name.p, '\0', length(name)) != NULL ||
        memchr(value.p, '\0', length(value)) != NULL)
        return ASERVE_NUL_IN_VAR;
    /* Lenient: leading digits, and an empty value is 0; nginx sends it. */
    if (is_exactly(name, "CONTENT_LENGTH") &&
        read_number(value.p, value.end, content_length) == NULL)
        return ASERVE_BAD_CONTENT_LENGTH;
    *next = p;
    if (!vars_is_own(name.p, length(name)))
        return 0;
    return vars_append(vars, name.p, length(name), value.p, length(value));
}

/* Append the others, once all pairs are known to be good. */
static int append_others(aserve_vars *vars, const char *p, const char *end)
{
    int code = 0;

    while (p < end && code == 0) {
        octets name = {p, p};
        octets value = {p, p};

        p = read_run(read_run(p, end, &name), end, &value);
        if (!vars_is_own(name.p, length(name)))
            code = vars_append_cgi(vars, name.p, length(name), value.p,
                                   length(value));
    }
    return code;
}

static int parse_vars(const char *p, const char *end, uwsgi_packet *packet)
{
    aserve_vars vars = {.buf = packet->vars, .cap = packet->vars_cap};
    const char *begin = p;
    uint32_t npairs = 0;
    int code;

    while (p < end) {
        if (npairs++ == packet->max_vars)
            return ASERVE_TOO_MANY_VARS;
        code = parse_var(&vars, p, end, &p, &packet->content_length);
        if (code != 0)
            return code;
    }
    packet->nfirst = vars.n;
    code = append_others(&vars, begin, end);
    if (code != 0)
        return code;
    packet->vars_len = vars.n > 0 ? vars.len - 1 : 0;
    packet->nvars = vars.n;
    return 0;
}

int uwsgi_parse_packet(const char *buf, size_t len, uwsgi_packet *packet)
{
    size_t data_len;
    int code = 0;

    if (len >= 2 && begins_tls(buf))
        return ASERVE_NOT_UWSGI;
    if (len < HEADER_LEN)
        return ASERVE_INCOMPLETE;
    if (begins_http(buf))
        return ASERVE_NOT_UWSGI;
    packet->content_length = 0;
    packet->vars_len = 0;
    packet->nvars = 0;
    packet->nfirst = 0;
    packet->modifier1 = (uint8_t)buf[0];
    packet->modifier2 = (uint8_t)buf[3];
    if (!is_served((uint8_t)buf[0]))
        return HEADER_LEN;
    data_len = read_u16le(buf + 1);
    if (data_len > packet->max_packet_len)
        return ASERVE_PACKET_TOO_LARGE;
    if (len - HEADER_LEN < data_len)
        return ASERVE_INCOMPLETE;
    buf += HEADER_LEN;
    if (holds_vars(packet))
        code = parse_vars(buf, buf + data_len, packet);
    return code != 0 ? code : (int)(HEADER_LEN + data_len);
}

int uwsgi_parse_array(const char *buf, size_t len, aserve_span *items,
                      uint32_t cap)
{
    const char *p = buf;
    const char *end = buf + len;
    uint32_t n = 0;

    assert(len <= INT_MAX);
    while (p < end) {
        octets item;

        p = read_run(p, end, &item);
        if (p == NULL)
            return ASERVE_VAR_OVERRUN;
        if (length(item) == 0)
            continue;
        if (n == cap)
            return ASERVE_TOO_MANY_VARS;
        items[n].off = (uint32_t)(item.p - buf);
        items[n].len = (uint32_t)length(item);
        n++;
    }
    return (int)n;
}
