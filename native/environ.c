/* environ.c -- from the vars block to the environ of PEP 3333.
 *
 * A request's own pairs come first in the vars; the rest is its field section.
 * The section begins a dict: base and fields.  The environ is this dict, or a
 * copy of the one that the section began before, with the request's own pairs. */
#include "environ.h"

#include <string.h>

enum { OWN_MAX = 32 }; /* pairs; front servers send ten names, once */

/* Names and values that have an object before the first request. */
enum {
    REQUEST_METHOD,
    REQUEST_URI,
    PATH_INFO,
    QUERY_STRING,
    SERVER_PROTOCOL,
    REMOTE_ADDR,
    REMOTE_PORT,
    SCRIPT_NAME,
    SCRIPT_FILENAME,
    DOCUMENT_URI,
    SERVER_NAME,
    SERVER_PORT,
    HTTPS,
    UWSGI_SCHEME,
    REQUEST_SCHEME,
    URL_SCHEME,
    VALUE_GET,
    VALUE_HTTP_1_1,
    VALUE_EMPTY,
    VALUE_HTTP,
    VALUE_HTTPS,
    WORDS
};

static const char *const spellings[WORDS] = {
    [REQUEST_METHOD] = "REQUEST_METHOD",
    [REQUEST_URI] = "REQUEST_URI",
    [PATH_INFO] = "PATH_INFO",
    [QUERY_STRING] = "QUERY_STRING",
    [SERVER_PROTOCOL] = "SERVER_PROTOCOL",
    [REMOTE_ADDR] = "REMOTE_ADDR",
    [REMOTE_PORT] = "REMOTE_PORT",
    [SCRIPT_NAME] = "SCRIPT_NAME",
    [SCRIPT_FILENAME] = "SCRIPT_FILENAME",
    [DOCUMENT_URI] = "DOCUMENT_URI",
    [SERVER_NAME] = "SERVER_NAME",
    [SERVER_PORT] = "SERVER_PORT",
    [HTTPS] = "HTTPS",
    [UWSGI_SCHEME] = "UWSGI_SCHEME",
    [REQUEST_SCHEME] = "REQUEST_SCHEME",
    [URL_SCHEME] = "wsgi.url_scheme",
    [VALUE_GET] = "GET",
    [VALUE_HTTP_1_1] = "HTTP/1.1",
    [VALUE_EMPTY] = "",
    [VALUE_HTTP] = "http",
    [VALUE_HTTPS] = "https",
};

static PyObject *words[WORDS]; /* interned, as the names of the base are */

/* The request line of HTTP. */
typedef struct {
    octets method;
    octets target;
    octets path;
    octets query;
    octets version;
} request_line;

#define WITH_NUL(literal) ((octets){literal, sizeof(literal)})

static int ends_with(octets whole, octets part)
{
    return whole.size >= part.size &&
           memcmp(whole.at + whole.size - part.size, part.at, part.size) == 0;
}

/* Read NAME NUL VALUE, and the NUL behind it, where the name is known; `name`
 * has its NUL, too.  Returns 0: there is another. */
static int next_value(const char **at, const char *end, octets name,
                      octets *value)
{
    if ((size_t)(end - *at) < name.size ||
        memcmp(*at, name.at, name.size) != 0)
        return 0;
    *at += name.size;
    *value = text_next(at, end);
    return 1;
}

/* Entries of a dict.  Those that set one return -1 with an exception. */

/* Borrowed; NULL: there is none.  No lookup fails where all keys are str. */
static PyObject *get(PyObject *dict, int word)
{
    return PyDict_GetItemWithError(dict, words[word]);
}

/* The value's octets; none if the name is missing. */
static octets get_octets(PyObject *dict, int word)
{
    PyObject *text = get(dict, word);
    octets value;

    return text != NULL && text_octets(text, &value) ? value : OCTETS("");
}

/* As an `if` of Python's; -1: an exception. */
static int is_true(PyObject *value)
{
    return value != NULL ? PyObject_IsTrue(value) : 0;
}

static int set(PyObject *dict, int word, PyObject *value)
{
    return PyDict_SetItem(dict, words[word], value);
}

static int set_text(PyObject *dict, PyObject *name, octets value)
{
    PyObject *text = text_of(value.at, value.size);
    int code = text != NULL ? PyDict_SetItem(dict, name, text) : -1;

    Py_XDECREF(text);
    return code;
}

static int set_pair(PyObject *dict, octets name, octets value)
{
    PyObject *key = text_name(name.at, name.size);
    int code = key != NULL ? set_text(dict, key, value) : -1;

    Py_XDECREF(key);
    return code;
}

/* Beginning a dict.  These return 1; 0: not plain; -1: an exception. */

/* Credentials, and fields that differ in each request. */
static int is_never_kept(octets name)
{
    return ends_with(name, OCTETS("AUTHORIZATION")) ||
           ends_with(name, OCTETS("REQUEST_ID")) ||
           ends_with(name, OCTETS("TRACEPARENT"));
}

/* Set each field; *may_keep becomes 0 if the section is never kept.  The twin
 * joins repeated fields (RFC 9110 section 5.3); of other vars the last wins. */
static int add_fields(PyObject *dict, octets fields, int *may_keep)
{
    const char *at = fields.at;
    const char *end = at + fields.size;
    octets name, value;

    while (at < end) {
        Py_ssize_t size = PyDict_GET_SIZE(dict);

        if (!text_pair(&at, end, &name, &value))
            return 0;
        if (set_pair(dict, name, value) < 0)
            return -1;
        if (PyDict_GET_SIZE(dict) == size &&
            begins_with(name, OCTETS("HTTP_")))
            return 0;
        if (is_never_kept(name))
            *may_keep = 0;
    }
    return 1;
}

/* The names that add_line need not set then. */
static int add_line_defaults(PyObject *dict)
{
    return set(dict, REQUEST_METHOD, words[VALUE_GET]) < 0 ||
                   set(dict, QUERY_STRING, words[VALUE_EMPTY]) < 0 ||
                   set(dict, SERVER_PROTOCOL, words[VALUE_HTTP_1_1]) < 0
               ? -1
               : 1;
}

static int is_on(octets https)
{
    return is_equal(https, OCTETS("1")) ||
           (https.size == 2 && (https.at[0] | 0x20) == 'o' &&
            (https.at[1] | 0x20) == 'n');
}

/* Borrowed.  Lenient: some proxies send ws and wss for a WebSocket. */
static PyObject *find_scheme(PyObject *dict)
{
    static const int tellers[] = {UWSGI_SCHEME, REQUEST_SCHEME};

    if (is_on(get_octets(dict, HTTPS)))
        return words[VALUE_HTTPS];
    for (size_t i = 0; i < sizeof tellers / sizeof *tellers; i++) {
        octets scheme = get_octets(dict, tellers[i]);

        if (is_equal(scheme, OCTETS("https")) ||
            is_equal(scheme, OCTETS("wss")))
            return words[VALUE_HTTPS];
        if (is_equal(scheme, OCTETS("http")) || is_equal(scheme, OCTETS("ws")))
            break;
    }
    return words[VALUE_HTTP];
}

/* The base's own value stands in for an empty one. */
static int fill_in(PyObject *dict, PyObject *base, int word)
{
    int code = is_true(get(dict, word));
    PyObject *value;

    if (code != 0)
        return code;
    value = get(base, word);
    if (value == NULL)
        return 0;
    return set(dict, word, value) < 0 ? -1 : 1;
}

/* Variables of PEP 3333 that front servers send in another form or not. */
static int complete_front(PyObject *dict, PyObject *base)
{
    int code;

    if (set(dict, URL_SCHEME, find_scheme(dict)) < 0)
        return -1;
    code = fill_in(dict, base, SERVER_NAME);
    return code > 0 ? fill_in(dict, base, SERVER_PORT) : code;
}

static PyObject *begin_anew(const section_key *key, int *may_keep)
{
    PyObject *dict = PyDict_Copy(key->base);
    int code;

    if (dict == NULL)
        return NULL;
    code = add_fields(dict, key->fields, may_keep);
    if (code > 0)
        code = key->is_front ? complete_front(dict, key->base)
                             : add_line_defaults(dict);
    if (code <= 0)
        Py_CLEAR(dict);
    return dict;
}

static PyObject *begin(environ_cache *cache, section_key *key, uint32_t *last)
{
    PyObject *dict = sections_copy(cache, key, last);
    int may_keep = 1;

    if (dict != NULL || PyErr_Occurred())
        return dict;
    dict = begin_anew(key, &may_keep);
    if (dict != NULL && may_keep)
        sections_offer(cache, key, dict);
    return dict;
}

/* The request's own pairs. */

/* In the order of http1.h.  Returns 0: they are others. */
static int read_line(const char **at, const char *end, request_line *line)
{
    return next_value(at, end, WITH_NUL("REQUEST_METHOD"), &line->method) &&
           next_value(at, end, WITH_NUL("REQUEST_URI"), &line->target) &&
           next_value(at, end, WITH_NUL("PATH_INFO"), &line->path) &&
           next_value(at, end, WITH_NUL("QUERY_STRING"), &line->query) &&
           next_value(at, end, WITH_NUL("SERVER_PROTOCOL"), &line->version);
}

/* Of a front server.  Returns 0: there are fewer, or too many. */
static int read_own(const char **at, const char *end, octets *own,
                    uint32_t npairs)
{
    if (npairs > OWN_MAX)
        return 0;
    for (uint32_t i = 0; i < npairs; i++)
        if (!text_pair(at, end, &own[2 * i], &own[2 * i + 1]))
            return 0;
    return 1;
}

/* Completing a begun dict; these return as the functions that begin one. */

/* Most paths are the target: then both are one object. */
static int set_target(PyObject *dict, octets target, octets path)
{
    PyObject *text = text_of(target.at, target.size);
    int code = text != NULL ? set(dict, REQUEST_URI, text) : -1;

    if (code == 0)
        code = is_equal(path, target) ? set(dict, PATH_INFO, text)
                                      : set_text(dict, words[PATH_INFO], path);
    Py_XDECREF(text);
    return code;
}

static int add_line(PyObject *dict, const environ_request *request,
                    const request_line *line)
{
    if (set_target(dict, line->target, line->path) < 0)
        return -1;
    if (!is_equal(line->method, OCTETS("GET")) &&
        set_text(dict, words[REQUEST_METHOD], line->method) < 0)
        return -1;
    if (line->query.size > 0 &&
        set_text(dict, words[QUERY_STRING], line->query) < 0)
        return -1;
    if (!is_equal(line->version, OCTETS("HTTP/1.1")) &&
        set_text(dict, words[SERVER_PROTOCOL], line->version) < 0)
        return -1;
    if (set(dict, REMOTE_ADDR, request->addr) < 0)
        return -1;
    return set(dict, REMOTE_PORT, request->port) < 0 ? -1 : 1;
}

/* nginx's scgi_params have no PATH_INFO: it is DOCUMENT_URI, which nginx has
 * decoded, or in REQUEST_URI.  The twin decodes that, and knows Apache's. */
static int add_path(PyObject *dict)
{
    PyObject *path = get(dict, DOCUMENT_URI);
    octets target;

    if (begins_with(get_octets(dict, SCRIPT_FILENAME),
                    OCTETS("proxy:scgi://")))
        return 0;
    if (is_true(path) > 0)
        return set(dict, PATH_INFO, path) < 0 ? -1 : 1;
    target = text_before(get_octets(dict, REQUEST_URI), '?');
    if (text_before(target, '%').size < target.size)
        return 0;
    return set_text(dict, words[PATH_INFO], target) < 0 ? -1 : 1;
}

/* The twin finds where a mount point ends. */
static int add_own(PyObject *dict, const octets *own, uint32_t npairs)
{
    for (uint32_t i = 0; i < npairs; i++)
        if (set_pair(dict, own[2 * i], own[2 * i + 1]) < 0)
            return -1;
    if (is_true(get(dict, SCRIPT_NAME)) != 0)
        return 0;
    return get(dict, PATH_INFO) != NULL ? 1 : add_path(dict);
}

int environ_init(void)
{
    for (int i = 0; i < WORDS; i++) {
        if (words[i] == NULL)
            words[i] = PyUnicode_InternFromString(spellings[i]);
        if (words[i] == NULL)
            return -1;
    }
    return 0;
}

PyObject *environ_new(environ_cache *cache, PyObject *base,
                      const environ_request *request, uint32_t *section)
{
    section_key key = {.base = base, .is_front = request->is_front};
    const char *at = request->vars;
    const char *end = at + request->vars_len;
    octets own[2 * OWN_MAX];
    request_line line = {.method = {NULL, 0}}; /* gcc does not see through */
    PyObject *dict;
    int code;

    if (!(key.is_front ? read_own(&at, end, own, request->nfirst)
                       : read_line(&at, end, &line)))
        return NULL;
    key.fields = (octets){at, (size_t)(end - at)};
    dict = begin(cache, &key, section);
    if (dict == NULL)
        return NULL;
    code = key.is_front ? add_own(dict, own, request->nfirst)
                        : add_line(dict, request, &line);
    if (code <= 0)
        Py_CLEAR(dict);
    return dict;
}

void environ_clear(environ_cache *cache)
{
    sections_clear(cache);
}
