/* h2_fields.c -- the rules that HTTP/2 adds to those of HTTP/1.1 (RFC 9113 8).
 * A request becomes a head of HTTP/1.1 that says the same, for the one parser:
 * the rules for targets, Host, names, values and limits stand there alone. */
#include "h2_parts.h"

#include <string.h>
#include "chars.h"

typedef struct {
    const char *p;
    size_t len;
} run;

enum { METHOD, SCHEME, AUTHORITY, PATH, PROTOCOL, PSEUDO };
static const char *const pseudo_names[PSEUDO] = {
    ":method", ":scheme", ":authority", ":path", ":protocol"};

/* RFC 8441 5.1 has no key.  An app wants one, and its answer to that goes no
 * further than here. */
static const char upgrade_lines[] =
    "connection: upgrade\r\nupgrade: websocket\r\n"
    "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";

typedef struct {
    h2_section *section;
    run pseudo[PSEUDO]; /* p NULL: there is none */
    char *to;
} reading;

static int is(const char *p, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(p, word, len) == 0;
}

static char lower(char octet)
{
    return (char)(octet >= 'A' && octet <= 'Z' ? octet | 0x20 : octet);
}

static int is_like(const char *p, size_t len, const char *q, size_t q_len)
{
    if (len != q_len)
        return 0;
    for (size_t i = 0; i < len; i++) {
        if (lower(p[i]) != lower(q[i]))
            return 0;
    }
    return 1;
}

/* RFC 9113 8.2.2: of a connection, which a stream has not. */
int is_connection_field(const char *name, size_t len)
{
    return is(name, len, "connection") || is(name, len, "proxy-connection") ||
           is(name, len, "keep-alive") || is(name, len, "upgrade") ||
           is(name, len, "transfer-encoding");
}

/* RFC 9113 8.2.1: a token (RFC 9110 5.6.2) without capital letters */
static int is_name(const char *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!tchar[(uint8_t)p[i]] || lower(p[i]) != p[i])
            return 0;
    }
    return len > 0;
}

static int is_token(const char *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!tchar[(uint8_t)p[i]])
            return 0;
    }
    return len > 0;
}

/* RFC 9113 8.2.1 */
static int is_value(const char *p, size_t len)
{
    if (len > 0 &&
        (p[0] == SP || p[0] == HTAB || p[len - 1] == SP || p[len - 1] == HTAB))
        return 0;
    return memchr(p, '\0', len) == NULL && memchr(p, CR, len) == NULL &&
           memchr(p, LF, len) == NULL;
}

static int is_pseudo_value(const char *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((uint8_t)p[i] <= SP || p[i] == 0x7f)
            return 0;
    }
    return len > 0;
}

/* The names of fields that none may have: RFC 9113 8.2.2. */
static int is_forbidden(run name, run value)
{
    return is_connection_field(name.p, name.len) ||
           (is(name.p, name.len, "te") &&
            !is_like(value.p, value.len, "trailers", 8));
}

int is_sound_field(const char *name, size_t name_len, const char *value,
                   size_t value_len)
{
    return is_name(name, name_len) && is_value(value, value_len) &&
           !is_forbidden((run){name, name_len}, (run){value, value_len});
}

static run name_at(const h2_section *section, size_t i)
{
    return (run){section->text + section->fields[i].name.off,
                 section->fields[i].name.len};
}

static run value_at(const h2_section *section, size_t i)
{
    return (run){section->text + section->fields[i].value.off,
                 section->fields[i].value.len};
}

/* RFC 9113 8.3 */
static const char *take_pseudo(reading *r, run name, run value)
{
    int i = 0, last = r->section->takes_websockets ? PROTOCOL : PATH;

    while (i <= last && !is(name.p, name.len, pseudo_names[i]))
        i++;
    if (i > last)
        return "an unknown pseudo-header field";
    if (r->pseudo[i].p != NULL)
        return "a repeated pseudo-header field";
    if (value.len == 0 ||
        !(i == AUTHORITY ? is_value(value.p, value.len)
                         : is_pseudo_value(value.p, value.len)))
        return "a pseudo-header field that is empty, or with a space or a "
               "control character";
    r->pseudo[i] = value;
    return NULL;
}

/* Check each field by itself. */
static void check_fields(reading *r)
{
    h2_section *section = r->section;
    int is_regular = 0;

    for (size_t i = 0; i < section->count && section->why == NULL; i++) {
        run name = name_at(section, i), value = value_at(section, i);

        if (name.len > 0 && name.p[0] == ':') {
            section->why = is_regular
                               ? "a pseudo-header field after other fields"
                               : take_pseudo(r, name, value);
            continue;
        }
        is_regular = 1;
        if (!is_name(name.p, name.len)) {
            section->why = "a field name that is not a token in lower case";
        } else if (!is_value(value.p, value.len)) {
            section->why = "a field value with a line end, a NUL, or a space "
                           "at an end";
        } else if (is_forbidden(name, value)) {
            section->what = section->fields[i].name;
            section->why = ", which is for connections of HTTP/1.1";
        }
    }
}

static void put(reading *r, run text)
{
    if (text.len > 0)
        memcpy(r->to, text.p, text.len);
    r->to += text.len;
}

static void put_text(reading *r, const char *text)
{
    put(r, (run){text, strlen(text)});
}

static void put_line(reading *r, const char *name, run value)
{
    put_text(r, name);
    put_text(r, ": ");
    put(r, value);
    put_text(r, "\r\n");
}

/* RFC 9110 4.2: with the port of its scheme or without, a host is the same. */
static run without_port(run host, run scheme)
{
    const char *port = is_like(scheme.p, scheme.len, "https", 5)  ? ":443"
                       : is_like(scheme.p, scheme.len, "http", 4) ? ":80"
                                                                  : "";
    size_t len = strlen(port);

    if (host.len >= len &&
        (len == 0 || memcmp(host.p + host.len - len, port, len) == 0))
        host.len -= len;
    return host;
}

static void put_hosts(reading *r)
{
    h2_section *section = r->section;
    run authority = r->pseudo[AUTHORITY], scheme = r->pseudo[SCHEME];
    run own = without_port(authority, scheme);
    int is_first = authority.p != NULL;

    if (is_first)
        put_line(r, "host", authority);
    for (size_t i = 0; i < section->count; i++) {
        run name = name_at(section, i), value = value_at(section, i);
        run host;

        if (!is(name.p, name.len, "host"))
            continue;
        host = without_port(value, scheme);
        if (authority.p != NULL &&
            !is_like(host.p, host.len, own.p, own.len)) {
            section->why = "a Host field that differs from :authority";
            return;
        }
        if (!is_first) /* a further one is one too many */
            put_line(r, "host", value);
        is_first = 0;
    }
}

/* RFC 9113 8.2.3: one field, split for compression. */
static void put_cookies(reading *r)
{
    int is_begun = 0;

    for (size_t i = 0; i < r->section->count; i++) {
        run name = name_at(r->section, i);

        if (!is(name.p, name.len, "cookie"))
            continue;
        put_text(r, is_begun ? "; " : "cookie: ");
        put(r, value_at(r->section, i));
        is_begun = 1;
    }
    if (is_begun)
        put_text(r, "\r\n");
}

/* RFC 9218 4.1, leniently: u=0 to 7 as a member of a dictionary. */
uint32_t urgency_of(const char *value, size_t len)
{
    for (size_t i = 0; i + 2 < len; i++) {
        int begins = i == 0 || value[i - 1] == SP || value[i - 1] == ',';
        int ends = i + 3 == len || value[i + 3] == SP || value[i + 3] == ',' ||
                   value[i + 3] == ';';

        if (begins && ends && value[i] == 'u' && value[i + 1] == '=' &&
            value[i + 2] >= '0' && value[i + 2] <= '7')
            return (uint32_t)(value[i + 2] - '0');
    }
    return H2_URGENCY;
}

/* RFC 9110 8.6; the parser refuses what is none. */
static int read_length(run value, uint64_t *length)
{
    while (value.len > 1 && value.p[0] == '0') {
        value.p++;
        value.len--;
    }
    if (value.len == 0 || value.len > 19) /* of 64 bits */
        return 0;
    *length = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (value.p[i] < '0' || value.p[i] > '9')
            return 0;
        *length = *length * 10 + (uint64_t)(value.p[i] - '0');
    }
    return 1;
}

static void put_others(reading *r, int is_upgrade)
{
    h2_section *section = r->section;
    int lengths = 0;

    for (size_t i = 0; i < section->count; i++) {
        run name = name_at(section, i), value = value_at(section, i);

        if (name.p[0] == ':' || is(name.p, name.len, "host") ||
            is(name.p, name.len, "cookie") ||
            (is_upgrade && (is(name.p, name.len, "sec-websocket-key") ||
                            is(name.p, name.len, "sec-websocket-accept"))))
            continue;
        if (is(name.p, name.len, "content-length"))
            section->has_length =
                lengths++ == 0 && read_length(value, &section->length);
        if (is(name.p, name.len, "priority") && section->urgency == H2_URGENCY)
            section->urgency = urgency_of(value.p, value.len);
        put(r, name);
        put_text(r, ": ");
        put(r, value);
        put_text(r, "\r\n");
    }
}

/* The target of the request (RFC 9113 8.3.1, 8.5; RFC 8441 4). */
static run find_target(reading *r, int *is_upgrade)
{
    h2_section *section = r->section;
    run method = r->pseudo[METHOD], path = r->pseudo[PATH];
    run authority = r->pseudo[AUTHORITY], protocol = r->pseudo[PROTOCOL];
    int is_connect = method.p != NULL && is(method.p, method.len, "CONNECT");

    if (protocol.p != NULL) {
        if (!is_connect || authority.p == NULL || path.p == NULL ||
            r->pseudo[SCHEME].p == NULL) {
            section->why =
                "a :protocol without CONNECT, :authority, :path or :scheme";
            return path;
        }
        *is_upgrade = is_like(protocol.p, protocol.len, "websocket", 9);
    }
    if (method.p == NULL || !is_token(method.p, method.len))
        section->why = "a request without a valid :method";
    else if (is_connect && !*is_upgrade)
        return authority.p != NULL ? authority : (run){"-", 1};
    else if (path.p == NULL || r->pseudo[SCHEME].p == NULL)
        section->why = "a request without :path or :scheme";
    else if (path.p[0] != '/' && path.p[0] != '*')
        section->why = "a :path that does not begin with a slash";
    return path;
}

void read_request(h2_section *section, char *to)
{
    reading r = {.section = section, .to = to};
    int is_upgrade = 0;
    run target, method;

    section->why = NULL;
    section->what = (aserve_span){0, 0};
    section->has_length = 0;
    section->urgency = H2_URGENCY;
    check_fields(&r);
    if (section->why != NULL)
        return;
    target = find_target(&r, &is_upgrade);
    if (section->why != NULL)
        return;
    method = is_upgrade ? (run){"GET", 3} : r.pseudo[METHOD];
    section->is_head = (uint8_t)is(method.p, method.len, "HEAD");
    put(&r, method);
    put_text(&r, " ");
    put(&r, target);
    put_text(&r, " HTTP/1.1\r\n");
    put_hosts(&r);
    put_cookies(&r);
    if (is_upgrade)
        put_text(&r, upgrade_lines);
    put_others(&r, is_upgrade);
    put_text(&r, "\r\n");
    section->head_len = (uint32_t)(r.to - to);
}

void read_trailers(h2_section *section)
{
    reading r = {.section = section, .to = NULL};

    section->why = NULL;
    section->what = (aserve_span){0, 0};
    check_fields(&r);
    for (int i = 0; i < PSEUDO && section->why == NULL; i++) {
        if (r.pseudo[i].p != NULL)
            section->why = "trailers that are none";
    }
}
