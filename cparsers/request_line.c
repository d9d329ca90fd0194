/* request_line.c -- RFC 9112 section 3. */
#include <string.h>
#include "chars.h"
#include "host.h"
#include "request_line.h"

/* RFC 9112 section 3 asks for 501 when a method is longer than any known;
 * the longest registered one, UPDATEREDIRECTREF, has 17 octets. */
enum { MAX_METHOD_LEN = 32 };

/* RFC 9112 section 3.2: the octets of a target, less "#".
 * Stricter than RFC 9112 3.2: a fragment is refused, no split is tried.
 * Lenient: "<>\^`{|} and 0x80-0xff, which no URI holds, pass, since browsers
 * send them; percent-encoded or raw, the app sees the same path. */
/* clang-format off */
static const uint8_t target_octet[256] = {
    ['!'] = 1, ['"'] = 1, ['$'] = 1, ['%'] = 1, ['&'] = 1, ['\''] = 1,
    ['('] = 1, [')'] = 1, ['*'] = 1, ['+'] = 1, [','] = 1, ['-'] = 1,
    ['.'] = 1, ['/'] = 1, SIXTEEN_FROM(0x30), SIXTEEN_FROM(0x40),
    SIXTEEN_FROM(0x50), SIXTEEN_FROM(0x60), FIFTEEN_FROM(0x70),
    OBS_TEXT
};
/* clang-format on */

/* RFC 9112 section 2.3: HTTP-version = HTTP-name "/" DIGIT "." DIGIT */
static int parse_version(const char *p, const char *end, int *minor)
{
    if (p == end || memchr(p, SP, (size_t)(end - p)) != NULL)
        return ASERVE_BAD_REQUEST_LINE;
    if (end - p != 8 || memcmp(p, "HTTP/", 5) != 0 || p[6] != '.')
        return ASERVE_BAD_VERSION;
    if (p[5] < '0' || p[5] > '9' || p[7] < '0' || p[7] > '9')
        return ASERVE_BAD_VERSION;
    if (p[5] != '1')
        return ASERVE_UNSUPPORTED_VERSION;
    *minor = p[7] - '0';
    return 0;
}

/* RFC 9112 section 3.2.1: origin-form = absolute-path [ "?" query ] */
static void split_origin_form(const char *p, const char *end,
                              request_line *line)
{
    const char *mark = memchr(p, '?', (size_t)(end - p));

    line->path.p = p;
    line->path.end = mark == NULL ? end : mark;
    line->query.p = mark == NULL ? end : mark + 1;
    line->query.end = end;
}

/* RFC 9112 section 3.2.2: absolute-form = absolute-URI
 * RFC 9110 section 4.2: http-URI = "http" "://" authority path-abempty
 *                                  [ "?" query ], and the same with https */
static int parse_absolute_form(request_line *line)
{
    const char *p = line->target.p;
    const char *end = line->target.end;
    const char *colon = memchr(p, ':', (size_t)(end - p));
    octets scheme = {p, colon};

    if (colon == NULL || end - colon < 3 || memcmp(colon, "://", 3) != 0 ||
        !(is_text(scheme, "http") || is_text(scheme, "https")))
        return ASERVE_BAD_TARGET;
    p = line->authority.p = colon + 3;
    while (p < end && *p != '/' && *p != '?')
        p++;
    line->authority.end = p;
    split_origin_form(p, end, line);
    if (length(line->path) == 0) {
        line->path.p = "/";
        line->path.end = line->path.p + 1;
    }
    return check_host(line->authority.p, line->authority.end);
}

/* RFC 9112 section 3.2: request-target = origin-form / absolute-form /
 * authority-form / asterisk-form; authority-form is for CONNECT alone. */
static int parse_target(request_line *line)
{
    if (*line->target.p == '/') {
        split_origin_form(line->target.p, line->target.end, line);
        return 0;
    }
    if (*line->target.p != '*' || length(line->target) != 1)
        return parse_absolute_form(line);
    if (length(line->method) != 7 || memcmp(line->method.p, "OPTIONS", 7) != 0)
        return ASERVE_BAD_TARGET;
    /* The server as a whole has no path: PATH_INFO is empty (PEP 3333), and
     * REQUEST_URI says which form it was. */
    split_origin_form(line->target.end, line->target.end, line);
    return 0;
}

/* RFC 9112 section 3: request-line = method SP request-target SP HTTP-version
 * Stricter than RFC 9112 3: no other white space than one SP is taken.
 * The version is judged before method and target, whose meaning hangs on it:
 * the preface of HTTP/2, "PRI * HTTP/2.0", deserves 505. */
int parse_request_line(const char *p, const char *end, request_line *line)
{
    int code;

    line->authority.p = line->authority.end = NULL;
    line->method.p = p;
    line->method.end = p = skip_tchars(p, end);
    if (p == line->method.p)
        return ASERVE_BAD_METHOD;
    if (p == end)
        return ASERVE_BAD_REQUEST_LINE;
    if (*p++ != SP)
        return ASERVE_BAD_METHOD;
    line->target.p = p;
    while (p < end && target_octet[(uint8_t)*p])
        p++;
    line->target.end = p;
    if (p < end && *p != SP)
        return ASERVE_BAD_TARGET;
    /* HTTP/0.9 knew "GET /path" alone: it ends here. */
    if (p == end || p == line->target.p)
        return ASERVE_BAD_REQUEST_LINE;
    code = parse_version(p + 1, end, &line->minor);
    if (code != 0)
        return code;
    if (length(line->method) > MAX_METHOD_LEN ||
        (length(line->method) == 7 &&
         memcmp(line->method.p, "CONNECT", 7) == 0))
        return ASERVE_UNSUPPORTED_METHOD;
    return parse_target(line);
}

/* RFC 3986 section 2.1: pct-encoded = "%" HEXDIG HEXDIG
 * Returns how many escapes [p, end) has, or ASERVE_BAD_PERCENT.
 * Stricter than RFC 3986 2.1: %00 is refused, as NUL ends a vars value. */
static int count_escapes(const char *p, const char *end)
{
    int count = 0;

    for (; p < end; p++) {
        if (*p != '%')
            continue;
        if (end - p < 3 || !hexdig[(uint8_t)p[1]] || !hexdig[(uint8_t)p[2]] ||
            (p[1] == '0' && p[2] == '0'))
            return ASERVE_BAD_PERCENT;
        count++;
        p += 2;
    }
    return count;
}

/* Append PATH_INFO, decoded once. */
static int append_path(aserve_vars *vars, octets path)
{
    int count = count_escapes(path.p, path.end);
    size_t decoded_len;
    char *dst;
    int code;

    if (count < 0)
        return count;
    /* The first decoded_len octets of the raw path take the room; they are
     * right when there is no escape, and written over when there is one. */
    decoded_len = length(path) - 2 * (size_t)count;
    code = vars_append(vars, "PATH_INFO", 9, path.p, decoded_len);
    if (code != 0 || count == 0)
        return code;
    dst = vars->buf + vars->len - 1 - decoded_len;
    for (const char *p = path.p; p < path.end; p++) {
        if (*p != '%') {
            *dst++ = *p;
            continue;
        }
        *dst++ = (char)((hexdig[(uint8_t)p[1]] & 15) << 4 |
                        (hexdig[(uint8_t)p[2]] & 15));
        p += 2;
    }
    return 0;
}

int append_request_line(aserve_vars *vars, const request_line *line)
{
    int code = vars_append(vars, "REQUEST_METHOD", 14, line->method.p,
                           length(line->method));
    if (code == 0)
        code = vars_append(vars, "REQUEST_URI", 11, line->target.p,
                           length(line->target));
    if (code == 0)
        code = append_path(vars, line->path);
    if (code == 0)
        code = vars_append(vars, "QUERY_STRING", 12, line->query.p,
                           length(line->query));
    /* RFC 9110 section 2.5: a higher minor version is read as our own. */
    if (code == 0)
        code = vars_append(vars, "SERVER_PROTOCOL", 15,
                           line->minor == 0 ? "HTTP/1.0" : "HTTP/1.1", 8);
    return code;
}
