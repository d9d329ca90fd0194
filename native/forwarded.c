/* forwarded.c -- the fields in which proxies describe their client. */
#include "forwarded.h"

/* RFC 7239, and what has no specification, but X-Forwarded- in its name. */
static int is_forwarded(octets name)
{
    return begins_with(name, OCTETS("HTTP_X_FORWARDED")) ||
           is_equal(name, OCTETS("HTTP_FORWARDED")) ||
           is_equal(name, OCTETS("HTTP_X_REAL_IP"));
}

static void keep(forwarded_rest *rest, const char *from, const char *to)
{
    memcpy(rest->octets + rest->size, from, (size_t)(to - from));
    rest->size += (size_t)(to - from);
}

int forwarded_remove(octets vars, uint32_t nfirst, forwarded_rest *rest)
{
    const char *at = vars.at, *end = at + vars.size, *kept = at, *pair;
    octets name, value;

    rest->size = 0;
    if (vars.size > FORWARDED_VARS_MAX)
        return 0;
    for (uint32_t i = 0; at < end; i++) {
        pair = at;
        if (!text_pair(&at, end, &name, &value))
            return 0;
        if (i < nfirst || !is_forwarded(name))
            continue;
        keep(rest, kept, pair);
        kept = at;
    }
    keep(rest, kept, end);
    if (kept == end && rest->size > 0)
        rest->size--; /* the NUL before the pair that was the last */
    return 1;
}
