/* head.c -- status and fields that the app gives: checked, and encoded.
 *
 * An app may put a client's octets into its head, so a fault of these checks
 * allows header injection.  Each octet is checked as it is copied: eight
 * at once by a quick check that refuses too much, and where it refuses, one
 * by one in the tables of chars.h, which decide.
 *
 * The arguments do not change meanwhile: they are of exact types, so nothing
 * here runs code of Python, and the GIL is held. */
#include "head.h"

#include <string.h>

#include "chars.h"

enum {
    WORD = 8,       /* octets of a uint64_t */
    DIGITS_MAX = 18 /* of a Content-Length; long long has room for them */
};

/* --- eight octets at once -------------------------------------------------
 *
 * The highest bit of an octet is its mark.  A seven-bit octet plus 0x80 less n
 * is marked from n on, and the sum never reaches the next octet. */

static inline uint64_t each(int octet)
{
    return UINT64_C(0x0101010101010101) * (uint64_t)octet;
}

/* Mark octets that a value may not have: controls; also HTAB, which it may. */
static inline uint64_t mark_controls(uint64_t word)
{
    uint64_t low = word & each(0x7f);
    uint64_t from_space = low + each(0x80 - SP);
    uint64_t from_del = low + each(0x80 - 0x7f);

    return (~from_space | from_del) & ~word & each(0x80);
}

/* Mark octets that a name may not have: all but letters and '-'; also digits
 * and the rest of tchar, which are allowed, but rare. */
static inline uint64_t mark_unusual(uint64_t word)
{
    uint64_t lower = (word | each(0x20)) & each(0x7f);
    uint64_t from_a = lower + each(0x80 - 'a');
    uint64_t behind_z = lower + each(0x80 - 'z' - 1);
    uint64_t not_hyphen = ((word ^ each('-')) & each(0x7f)) + each(0x80 - 1);

    return (((~from_a | behind_z) & not_hyphen) | word) & each(0x80);
}

static inline uint64_t copy_word(char *to, const char *from)
{
    uint64_t word;

    memcpy(&word, from, WORD);
    memcpy(to, &word, WORD);
    return word;
}

/* --- copying what is checked ---------------------------------------------- */

/* Returns whether all octets are members. */
static int copy_octets(char *to, octets from, const uint8_t members[256])
{
    unsigned are_members = 1;

    for (size_t i = 0; i < from.size; i++) {
        are_members &= members[(uint8_t)from.at[i]];
        to[i] = from.at[i];
    }
    return (int)are_members;
}

/* The same; `mark` marks at least the octets that are no members. */
static inline int copy(char *to, octets from, uint64_t (*mark)(uint64_t),
                       const uint8_t members[256])
{
    uint64_t marks = 0;
    size_t last;

    if (from.size < WORD)
        return copy_octets(to, from, members);
    last = from.size - WORD;
    for (size_t at = 0; at < last; at += WORD)
        marks |= mark(copy_word(to + at, from.at + at));
    marks |= mark(copy_word(to + last, from.at + last)); /* some of it again */
    return marks == 0 || copy_octets(to, from, members);
}

/* RFC 9110 section 5.6.2: token = 1*tchar */
static int copy_name(char *to, octets name)
{
    return name.size > 0 && copy(to, name, mark_unusual, tchar);
}

/* RFC 9110 section 5.5: field-content, but it may begin and end with SP and
 * HTAB.  RFC 9112 section 4: reason-phrase. */
static int copy_value(char *to, octets value)
{
    return copy(to, value, mark_controls, field_octet);
}

static char *put_pair(char *to, const char pair[2])
{
    memcpy(to, pair, 2);
    return to + 2;
}

/* --- what a status and a field say ---------------------------------------- */

/* RFC 9112 section 4: status-code SP [ reason-phrase ].  Returns the code of a
 * final response that may have a body; 0 for anything else. */
static int read_code(octets status)
{
    const char *p = status.at;
    int code;

    if (status.size < 4 || p[0] < '2' || p[0] > '9' || p[1] < '0' ||
        p[1] > '9' || p[2] < '0' || p[2] > '9' || p[3] != SP)
        return 0;
    code = (p[0] - '0') * 100 + (p[1] - '0') * 10 + (p[2] - '0');
    return code == 204 || code == 205 || code == 304 ? 0 : code;
}

/* RFC 9110 section 8.6: Content-Length = 1*DIGIT.  Returns -1 for anything
 * else, and for one that is too long. */
static long long read_length(octets value)
{
    long long length = 0;

    if (value.size == 0 || value.size > DIGITS_MAX)
        return -1;
    for (size_t i = 0; i < value.size; i++) {
        if (value.at[i] < '0' || value.at[i] > '9')
            return -1;
        length = 10 * length + (value.at[i] - '0');
    }
    return length;
}

/* True when a name is `lower` in any case; both have the same size.  `lower`
 * has letters and '-' only: no tchar but a letter's other case is the same
 * with bit 5 set. */
static inline int is_name(octets name, const char *lower)
{
    for (size_t i = 0; i < name.size; i++)
        if ((name.at[i] | 0x20) != lower[i])
            return 0;
    return 1;
}

static int is_content_length(octets name)
{
    return name.size == 14 && is_name(name, "content-length");
}

/* Hop-by-hop fields (RFC 9110 section 7.6.1), which an app must not give, and
 * those that the server gives if the app does not. */
static int is_servers(octets name)
{
    switch (name.size) {
    case 2:
        return is_name(name, "te");
    case 4:
        return is_name(name, "date");
    case 6:
        return is_name(name, "server");
    case 7:
        return is_name(name, "trailer") || is_name(name, "upgrade");
    case 10:
        return is_name(name, "connection") || is_name(name, "keep-alive");
    case 16:
        return is_name(name, "proxy-connection");
    case 17:
        return is_name(name, "transfer-encoding");
    case 18:
        return is_name(name, "proxy-authenticate");
    case 19:
        return is_name(name, "proxy-authorization");
    default:
        return 0;
    }
}

/* --- the head ------------------------------------------------------------- */

/* Whether two runs and what stands between and behind them have room.  A run
 * is at most PY_SSIZE_T_MAX octets: the sum of two does not overflow. */
static int has_room(size_t room, octets first, octets second, size_t others)
{
    return room >= others && first.size + second.size <= room - others;
}

/* Returns where the line ends; NULL: not plain. */
static char *put_field(char *to, const char *end, PyObject *field,
                       long long *length)
{
    octets name, value;

    if (!PyTuple_CheckExact(field) || PyTuple_GET_SIZE(field) != 2 ||
        !text_octets(PyTuple_GET_ITEM(field, 0), &name) ||
        !text_octets(PyTuple_GET_ITEM(field, 1), &value) ||
        !has_room((size_t)(end - to), name, value, 4) || is_servers(name))
        return NULL;
    if (is_content_length(name)) {
        if (*length >= 0)
            return NULL; /* a second one */
        *length = read_length(value);
        if (*length < 0)
            return NULL;
    }
    if (!copy_name(to, name))
        return NULL;
    to = put_pair(to + name.size, ": ");
    if (!copy_value(to, value))
        return NULL;
    return put_pair(to + value.size, "\r\n");
}

int head_make(char *to, size_t cap, octets prefix, PyObject *status,
              PyObject *headers, head_facts *facts)
{
    char *p = to;
    const char *end = to + cap;
    long long length = -1;
    octets text;
    int code;

    if (!PyList_CheckExact(headers) || !text_octets(status, &text) ||
        !has_room(cap, prefix, text, 2))
        return 0;
    code = read_code(text);
    if (code == 0)
        return 0;
    memcpy(p, prefix.at, prefix.size);
    p += prefix.size;
    if (!copy_value(p, text))
        return 0;
    p = put_pair(p + text.size, "\r\n");
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(headers); i++) {
        p = put_field(p, end, PyList_GET_ITEM(headers, i), &length);
        if (p == NULL)
            return 0;
    }
    facts->size = (uint32_t)(p - to);
    facts->code = code;
    facts->length = length;
    return 1;
}
