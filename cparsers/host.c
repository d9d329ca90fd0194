/* host.c -- uri-host [ ":" port ]  (RFC 9110 section 7.2, RFC 3986 3.2.2). */
#include "chars.h"
#include "host.h"

/* RFC 3986 section 3.2.2: reg-name = *( unreserved / pct-encoded /
 * sub-delims ), which holds IPv4address; "%" is looked at by itself.
 * Stricter than RFC 3986 3.2.2: "," is refused: it joins two Host values. */
/* clang-format off */
static const uint8_t reg_name[256] = {
    ['-'] = 1, ['.'] = 1, ['_'] = 1, ['~'] = 1, ['!'] = 1, ['$'] = 1,
    ['&'] = 1, ['\''] = 1, ['('] = 1, [')'] = 1, ['*'] = 1, ['+'] = 1,
    [';'] = 1, ['='] = 1, DIGITS, ALPHAS
};
/* clang-format on */

/* RFC 3986 section 3.2.2: IP-literal = "[" ( IPv6address / IPvFuture ) "]"
 * Lenient: the groups of the address are not counted.
 * Stricter than RFC 3986 3.2.2: IPvFuture is refused: none is assigned.
 * Returns the end of the literal, or NULL. */
static const char *skip_ip_literal(const char *p, const char *end)
{
    int ncolons = 0;

    for (p++; p < end && *p != ']'; p++) {
        if (*p == ':')
            ncolons++;
        else if (!hexdig[(uint8_t)*p] && *p != '.')
            return NULL;
    }
    return p < end && ncolons >= 2 ? p + 1 : NULL;
}

/* Returns the end of the name, or NULL. */
static const char *skip_reg_name(const char *p, const char *end)
{
    const char *name = p;

    while (p < end && (reg_name[(uint8_t)*p] || *p == '%')) {
        if (*p == '%') {
            if (end - p < 3 || !hexdig[(uint8_t)p[1]] ||
                !hexdig[(uint8_t)p[2]])
                return NULL;
            p += 2;
        }
        p++;
    }
    /* RFC 9110 section 4.2.1: a URI with an empty host is to be rejected.
     * Stricter than RFC 9110 7.2: so is a Host of a port alone. */
    return p == name ? NULL : p;
}

int check_host(const char *p, const char *end)
{
    if (p < end && *p == '[')
        p = skip_ip_literal(p, end);
    else
        p = skip_reg_name(p, end);
    if (p == NULL)
        return ASERVE_BAD_HOST;
    if (p == end)
        return 0;
    /* RFC 3986 section 3.2.3: port = *DIGIT, so "host:" is good. */
    if (*p++ != ':')
        return ASERVE_BAD_HOST;
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p == end ? 0 : ASERVE_BAD_HOST;
}
