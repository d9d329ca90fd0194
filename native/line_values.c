/* line_values.c -- the values that a line of the access log shows. */
#include "line_values.h"

#include <string.h>
#include <strings.h>

enum { REQUEST_ID_MAX = 128 }; /* as MAX_REQUEST_ID of wsgi/request_id.py */

static const octets own_names[LINE_OWN_COUNT] = {
    {"REQUEST_METHOD", 14}, {"REQUEST_URI", 11},     {"PATH_INFO", 9},
    {"QUERY_STRING", 12},   {"SERVER_PROTOCOL", 15}, {"REMOTE_ADDR", 11},
    {"DOCUMENT_URI", 12},
};

/* The first five are at the beginning of the vars of HTTP's parser. */
enum { OWN_FIRST = LINE_PROTO + 1 };

int line_name(line_names *self, PyObject *name)
{
    int i;

    for (i = 0; i < self->count; i++)
        if (PyUnicode_Compare(self->names[i], name) == 0)
            return i;
    if (i == LINE_NAMES_MAX || !text_octets(name, &self->octets[i])) {
        PyErr_BadArgument();
        return -1;
    }
    Py_INCREF(name);
    self->names[self->count++] = name;
    return i;
}

void line_names_clear(line_names *self)
{
    while (self->count > 0)
        Py_DECREF(self->names[--self->count]);
}

/* --- what is known of a request --------------------------------------------  */

static void find_name(const line_names *names, line_request *of, octets name,
                      octets found)
{
    for (int i = 0; i < names->count; i++)
        if (is_equal(names->octets[i], name))
            of->found[i] = found;
}

/* A proxy's claims, and a name that was made, come after the received vars. */
static void find_changes(const line_names *names, line_request *of)
{
    const line_end *end = of->end;

    if (end->made_id.size > 0)
        find_name(names, of, OCTETS("HTTP_X_REQUEST_ID"), end->made_id);
    for (int i = 0; end->changes != NULL && i < names->count; i++) {
        PyObject *to;

        if (!begins_with(names->octets[i], OCTETS("HTTP_")))
            continue;
        to = PyDict_GetItem(end->changes, names->names[i]);
        if (to != NULL)
            text_octets(to, &of->found[i]);
    }
}

int line_find(line_request *of, const line_names *names)
{
    const char *at = of->end->vars.at, *end = at + of->end->vars.size;
    octets name, found;

    for (int i = 0; i < LINE_OWN_COUNT; i++)
        of->own[i] = (octets){NULL, 0};
    for (int i = 0; i < names->count; i++)
        of->found[i] = (octets){NULL, 0};
    of->addr = of->end->addr;
    if (of->end->is_front && at == end)
        return of->end->made_id.size == 0; /* an RPC call: it has no name */
    for (int i = 0; !of->end->is_front && i < OWN_FIRST; i++)
        if (!text_pair(&at, end, &name, &of->own[i]))
            return 0;
    if (at == end)
        return 0;
    while (at < end && text_pair(&at, end, &name, &found)) {
        for (int i = 0; of->end->is_front && i < LINE_OWN_COUNT; i++)
            if (is_equal(own_names[i], name))
                of->own[i] = found;
        find_name(names, of, name, found);
    }
    find_changes(names, of);
    if (of->end->is_front)
        of->addr = of->own[LINE_ADDR];
    if (of->end->is_front && of->own[LINE_URI].size == 0)
        of->own[LINE_URI] = of->own[LINE_PATH_INFO];
    if (of->end->is_front && of->own[LINE_PATH_INFO].size == 0)
        of->own[LINE_PATH_INFO] = of->own[LINE_DOCUMENT_URI];
    return 1;
}

/* --- values ---------------------------------------------------------------- */

static line_shown nothing(void)
{
    return (line_shown){VALUE_NONE, {NULL, 0}, 0, 0.0};
}

static line_shown text(octets of)
{
    return (line_shown){of.at != NULL ? VALUE_TEXT : VALUE_NONE, of, 0, 0.0};
}

static line_shown text_or_nothing(octets of)
{
    return text(of.size > 0 ? of : (octets){NULL, 0});
}

static line_shown number(size_t of)
{
    return (line_shown){VALUE_NUMBER, {NULL, 0}, of, 0.0};
}

static line_shown seconds_of(double from, double to)
{
    return (line_shown){from != 0.0 && to != 0.0 ? VALUE_SECONDS : VALUE_NONE,
                        {NULL, 0},
                        0,
                        to - from};
}

static line_shown whole(const line_end *end, double per_second)
{
    line_shown took = seconds_of(end->arrived_at, end->ended_at);

    if (took.type == VALUE_SECONDS)
        took = number((size_t)(took.seconds * per_second));
    return took;
}

static line_shown path_of(const line_request *of)
{
    return text(of->own[LINE_URI].size > 0
                    ? text_before(of->own[LINE_URI], '?')
                    : of->own[LINE_PATH_INFO]);
}

static line_shown version_of(octets proto)
{
    size_t name = text_before(proto, '/').size;

    return text(name < proto.size
                    ? (octets){proto.at + name + 1, proto.size - name - 1}
                    : OCTETS(""));
}

static line_shown request_id_of(octets found)
{
    if (found.size > REQUEST_ID_MAX)
        found.size = REQUEST_ID_MAX;
    return text_or_nothing(found);
}

static line_shown client_of(octets addr)
{
    return text(addr.size > 0 && !is_equal(addr, OCTETS("-"))
                    ? addr
                    : (octets){NULL, 0});
}

static int is_basic(octets credentials)
{
    octets scheme = text_before(credentials, ' ');

    return scheme.size == 5 && strncasecmp(scheme.at, "basic", 5) == 0;
}

/* Basic authentication is Python's to decode. */
static line_shown user_of(const line_request *of, int at)
{
    if (of->found[at].size > 0)
        return text(of->found[at]);
    if (is_basic(of->found[LINE_AUTHORIZATION]))
        return (line_shown){VALUE_PYTHONS, {NULL, 0}, 0, 0.0};
    return nothing();
}

line_shown line_value(const line_request *of, int kind, int at)
{
    const line_end *end = of->end;

    switch (kind) {
    case A_FIELD:
        return text(of->found[at]);
    case A_USER:
        return user_of(of, at);
    case A_REQUEST_ID:
        return request_id_of(of->found[at]);
    case A_METHOD:
        return text(of->own[LINE_METHOD]);
    case A_URI:
        return text(of->own[LINE_URI]);
    case A_PATH:
        return path_of(of);
    case A_PATH_INFO:
        return text(of->own[LINE_PATH_INFO]);
    case A_QUERY_OR_NONE:
        return text(of->own[LINE_QUERY]);
    case A_QUERY:
        return text(of->own[LINE_QUERY].at != NULL ? of->own[LINE_QUERY]
                                                   : OCTETS(""));
    case A_PROTO:
        return text(of->own[LINE_PROTO]);
    case A_VERSION:
        return version_of(of->own[LINE_PROTO]);
    case A_ADDR:
        return text_or_nothing(of->addr);
    case A_CLIENT:
        return client_of(of->addr);
    case A_STATUS:
        return number((size_t)end->status);
    case A_STATUS_OR_NONE:
        return end->status > 0 ? number((size_t)end->status) : nothing();
    case A_SIZE:
        return number(end->size);
    case A_SIZE_OR_DASH:
        return end->size > 0 ? number(end->size) : nothing();
    case A_END:
        return text(end->is_gone ? OCTETS("client_gone") : OCTETS("answered"));
    case A_SECS:
        return whole(end, 1.0);
    case A_MSECS:
        return whole(end, 1e3);
    case A_MICROS:
        return whole(end, 1e6);
    case A_DURATION:
        return seconds_of(end->arrived_at, end->ended_at);
    case A_QUEUE_WAIT:
        return seconds_of(end->arrived_at, end->began_at);
    case A_THREAD:
        return text(of->thread);
    default:
        return nothing();
    }
}
