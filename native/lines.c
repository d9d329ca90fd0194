/* lines.c -- the access log's lines of plain requests. */
#include "lines.h"

#include "last_line.h"
#include "shown.h"

enum {
    VALUE_MAX = 8192, /* as MAX_VALUE of features/access_log/log_format.py */
    THREADS_KEPT = 256,
    KEPT_MAX = 1 << 16 /* octets that are kept for the next lines */
};

/* A text, or a value with the text before it. */
typedef struct {
    int kind;
    int at;          /* A_FIELD ...: of `names`; A_SECOND: of `texts` */
    int is_column;   /* of a JSON line: none without a value */
    octets text;     /* before the value */
    PyObject *holds; /* of that */
} piece;

struct lines {
    PyObject *on_second;
    PyObject *name_thread;
    int asks_thread;
    Py_ssize_t npieces;
    piece *pieces;
    line_names names;
    int of_start; /* the second is that of the request's beginning */
    /* of this second, by time.monotonic() */
    double second_at, second_ends;
    PyObject *texts; /* a tuple of bytes */
    /* Each thread has one place, by its key; another may take the place. */
    struct {
        uint64_t key;
        PyObject *name; /* bytes; NULL: the place is free */
    } threads[THREADS_KEPT];
    int repeats; /* the same request has the same line, in one second */
    last_line last;
    shown text; /* of the lines so far */
    Py_ssize_t count;
};

static PyObject *s_authorization;

int lines_init(void)
{
    s_authorization = PyUnicode_InternFromString("HTTP_AUTHORIZATION");
    return s_authorization != NULL ? 0 : -1;
}

/* --- beginning and end ----------------------------------------------------- */

/* (kind, argument, text before it, is_column): UTF-8; the argument: a variable,
 * or a number in the place of one. */
static int take_piece(lines *self, piece *to, PyObject *from)
{
    PyObject *argument, *text;

    if (!PyArg_ParseTuple(from, "iOSp", &to->kind, &argument, &text,
                          &to->is_column))
        return -1;
    Py_INCREF(text);
    to->holds = text;
    to->text =
        (octets){PyBytes_AS_STRING(text), (size_t)PyBytes_GET_SIZE(text)};
    if (to->kind < 0 || to->kind >= KIND_COUNT) {
        PyErr_BadArgument();
        return -1;
    }
    self->asks_thread |= to->kind == A_THREAD;
    self->repeats &=
        to->kind != A_MILLIS && (to->kind < A_SECS || to->kind > A_THREAD);
    if (PyUnicode_Check(argument))
        to->at = line_name(&self->names, argument);
    else if (to->kind < A_FIELD || to->kind > A_USER)
        PyArg_Parse(argument, "i", &to->at);
    else
        PyErr_BadArgument();
    return PyErr_Occurred() ? -1 : 0;
}

lines *lines_new(PyObject *program)
{
    PyObject *pieces, *on_second, *name_thread;
    lines *made = PyMem_Calloc(1, sizeof *made);

    if (made == NULL)
        return (lines *)PyErr_NoMemory();
    made->second_ends = -1.0;
    made->repeats = 1;
    if (!PyArg_ParseTuple(program, "O!ppOO", &PyTuple_Type, &pieces,
                          &made->text.is_json, &made->of_start, &on_second,
                          &name_thread))
        goto failed;
    Py_INCREF(on_second);
    made->on_second = on_second;
    Py_INCREF(name_thread);
    made->name_thread = name_thread;
    if (line_name(&made->names, s_authorization) < 0)
        goto failed;
    made->npieces = PyTuple_GET_SIZE(pieces);
    made->pieces =
        PyMem_Calloc((size_t)made->npieces + 1, sizeof *made->pieces);
    if (made->pieces == NULL) {
        PyErr_NoMemory();
        goto failed;
    }
    for (Py_ssize_t i = 0; i < made->npieces; i++)
        if (take_piece(made, &made->pieces[i], PyTuple_GET_ITEM(pieces, i)) <
            0)
            goto failed;
    for (int i = 0; i < made->names.count; i++)
        if (is_equal(made->names.octets[i], OCTETS("HTTP_X_REQUEST_ID")))
            made->repeats = 0;
    return made;
failed:
    lines_free(made);
    return NULL;
}

void lines_free(lines *self)
{
    if (self == NULL)
        return;
    for (Py_ssize_t i = 0; self->pieces != NULL && i < self->npieces; i++)
        Py_XDECREF(self->pieces[i].holds);
    line_names_clear(&self->names);
    for (int i = 0; i < THREADS_KEPT; i++)
        Py_XDECREF(self->threads[i].name);
    Py_XDECREF(self->on_second);
    Py_XDECREF(self->name_thread);
    Py_XDECREF(self->texts);
    last_line_clear(&self->last);
    PyMem_Free(self->pieces);
    PyMem_Free(self->text.at);
    PyMem_Free(self);
}

/* --- what Python says ------------------------------------------------------ */

/* (when it begins, when it ends, texts) */
static int take_second(lines *self, PyObject *found)
{
    double begins, ends;
    PyObject *texts;

    if (!PyArg_ParseTuple(found, "ddO!", &begins, &ends, &PyTuple_Type,
                          &texts))
        return -1;
    Py_INCREF(texts);
    self->second_at = begins;
    self->second_ends = ends;
    self->last.line.size = 0;
    Py_XSETREF(self->texts, texts);
    return 0;
}

static int begin_second(lines *self, double ended_at)
{
    PyObject *found = PyObject_CallFunction(self->on_second, "d", ended_at);
    int result = found != NULL ? take_second(self, found) : -1;

    Py_XDECREF(found);
    return result;
}

static octets name_of(const lines *self, uint64_t key)
{
    PyObject *name = self->threads[key % THREADS_KEPT].name;

    if (name == NULL || self->threads[key % THREADS_KEPT].key != key)
        return (octets){NULL, 0};
    return (octets){PyBytes_AS_STRING(name), (size_t)PyBytes_GET_SIZE(name)};
}

static int learn_name(lines *self, const line_end *of)
{
    uint64_t key = of->thread_key;
    PyObject *name;

    if (name_of(self, key).at != NULL)
        return 0;
    name = PyObject_CallFunction(self->name_thread, "k", of->thread_id);
    if (name == NULL)
        return -1;
    if (!PyBytes_CheckExact(name)) {
        Py_DECREF(name);
        PyErr_BadArgument();
        return -1;
    }
    self->threads[key % THREADS_KEPT].key = key;
    Py_XSETREF(self->threads[key % THREADS_KEPT].name, name);
    return 0;
}

static double moment_of(const lines *self, const line_end *of)
{
    return self->of_start && of->arrived_at > 0.0 ? of->arrived_at
                                                  : of->ended_at;
}

static int is_in_second(const lines *self, const line_end *of)
{
    double at = moment_of(self, of);

    return self->second_at <= at && at < self->second_ends;
}

int lines_prepare(lines *self, const line_end *of)
{
    if (!is_in_second(self, of) && begin_second(self, moment_of(self, of)) < 0)
        return -1;
    return self->asks_thread ? learn_name(self, of) : 0;
}

/* --- putting --------------------------------------------------------------- */

/* The same of as much as a value may have. */
static int put_cut(lines *self, octets from, size_t *left)
{
    if (from.size > *left)
        from.size = *left;
    *left -= from.size;
    return shown_put_escaped(&self->text, from);
}

static octets or_dash(octets of)
{
    return of.size > 0 ? of : OCTETS("-");
}

static int put_request(lines *self, const line_request *of)
{
    size_t left = VALUE_MAX;

    if (of->end->vars.size == 0)
        return shown_put(&self->text, OCTETS("-"));
    return put_cut(self, or_dash(of->own[LINE_METHOD]), &left) &&
           put_cut(self, OCTETS(" "), &left) &&
           put_cut(self, or_dash(of->own[LINE_URI]), &left) &&
           put_cut(self, OCTETS(" "), &left) &&
           put_cut(self, or_dash(of->own[LINE_PROTO]), &left);
}

static int put_value(lines *self, const line_shown *of, int is_column)
{
    size_t left = VALUE_MAX;

    switch (of->type) {
    case VALUE_TEXT:
        return (!is_column || shown_put(&self->text, OCTETS("\""))) &&
               put_cut(self, of->text, &left) &&
               (!is_column || shown_put(&self->text, OCTETS("\"")));
    case VALUE_NUMBER:
        return shown_put_number(&self->text, of->number);
    case VALUE_PYTHONS:
        return 0;
    case VALUE_SECONDS:
        return shown_put_seconds(&self->text, of->seconds, is_column);
    default:
        return shown_put(&self->text, OCTETS("-"));
    }
}

static int put_of_second(lines *self, int at)
{
    PyObject *found = PyTuple_GetItem(self->texts, at);
    octets text;

    if (found == NULL || !PyBytes_CheckExact(found)) {
        PyErr_Clear();
        return 0;
    }
    text = (octets){PyBytes_AS_STRING(found), (size_t)PyBytes_GET_SIZE(found)};
    return shown_put(&self->text, text);
}

static int put_piece(lines *self, const piece *asked, const line_request *of)
{
    line_shown found;

    if (asked->is_column) {
        found = line_value(of, asked->kind, asked->at);
        if (found.type == VALUE_NONE ||
            (found.type == VALUE_TEXT && found.text.size == 0))
            return 1;
        return shown_put(&self->text, asked->text) &&
               put_value(self, &found, 1);
    }
    if (!shown_put(&self->text, asked->text))
        return 0;
    switch (asked->kind) {
    case A_TEXT:
        return 1;
    case A_SECOND:
        return put_of_second(self, asked->at);
    case A_MILLIS:
        return shown_put_millis(&self->text,
                                of->end->ended_at - self->second_at);
    case A_REQUEST:
        return put_request(self, of);
    default:
        found = line_value(of, asked->kind, asked->at);
        return put_value(self, &found, 0);
    }
}

/* --- a line ---------------------------------------------------------------- */

static int make_line(lines *self, const line_end *end)
{
    size_t begin = self->text.size;
    line_request of;

    of.end = end;
    of.thread = (octets){NULL, 0};
    if (self->asks_thread)
        of.thread = name_of(self, end->thread_key);
    if ((self->asks_thread && of.thread.at == NULL) ||
        !line_find(&of, &self->names))
        return 0;
    for (Py_ssize_t i = 0; i < self->npieces; i++)
        if (!put_piece(self, &self->pieces[i], &of)) {
            self->text.size = begin;
            return 0;
        }
    if (self->repeats && of.found[LINE_AUTHORIZATION].at == NULL)
        last_line_keep(
            &self->last, end,
            (octets){self->text.at + begin, self->text.size - begin});
    return 1;
}

int lines_add(lines *self, const line_end *end)
{
    int is_added;

    if (!is_in_second(self, end))
        return 0; /* another thread has prepared another second since */
    is_added = last_line_is(&self->last, end)
                   ? shown_put(&self->text, self->last.line)
                   : make_line(self, end);
    self->count += is_added;
    return is_added;
}

Py_ssize_t lines_count(const lines *self)
{
    return self->count;
}

PyObject *lines_take(lines *self)
{
    PyObject *taken =
        PyBytes_FromStringAndSize(self->text.at, (Py_ssize_t)self->text.size);

    if (taken == NULL)
        return NULL;
    self->text.size = 0;
    self->count = 0;
    if (self->text.cap > KEPT_MAX) {
        PyMem_Free(self->text.at);
        self->text.at = NULL;
        self->text.cap = 0;
    }
    return taken;
}
