/* ends.c -- the ends of requests, as their readers get them. */
#include "ends.h"

#include "seam.h"
#include "taken.h"

enum { LONGEST = 1 /* second: as _LONGEST of core/ends.py */ };

static PyObject *s_remote_addr, *s_host, *s_answered, *s_client_gone, *not_yet,
    *no_head;

int ends_init(void)
{
    s_remote_addr = PyUnicode_InternFromString("REMOTE_ADDR");
    s_host = PyUnicode_InternFromString("HTTP_HOST");
    s_answered = PyUnicode_InternFromString("answered");
    s_client_gone = PyUnicode_InternFromString("client_gone");
    not_yet = PyFloat_FromDouble(0.0);
    no_head = PyBytes_FromStringAndSize(NULL, 0);
    return s_remote_addr && s_host && s_answered && s_client_gone && not_yet &&
                   no_head
               ? 0
               : -1;
}

#define OF_ENDS(name, kind)                                                   \
    {                                                                         \
#name, SEAM_##kind, offsetof(ends_log, name)                          \
    }

/* Of core/ends.py, Parts. */
static const seam_value values[] = {
    OF_ENDS(noted, OPTIONAL),  OF_ENDS(flush, OPTIONAL),
    OF_ENDS(most, COUNT),      OF_ENDS(soon, SECONDS),
    OF_ENDS(wants_head, FLAG), OF_ENDS(slow_seconds, SECONDS),
    OF_ENDS(places, OPTIONAL), OF_ENDS(program, OPTIONAL),
    {NULL, SEAM_OBJECT, 0},
};

static PyObject *new_reference(PyObject *object)
{
    Py_INCREF(object);
    return object;
}

int ends_take(ends_log *to, PyObject *parts)
{
    to->slow_seconds = Py_HUGE_VAL;
    if (parts == NULL)
        return 0;
    if (seam_take(to, parts, values) < 0)
        return -1;
    if (to->noted != NULL)
        to->append = PyObject_GetAttrString(to->noted, "append");
    if (to->places != NULL)
        to->counted = counts_new(to->places);
    if (!PyErr_Occurred() && to->program != NULL)
        to->lines = lines_new(to->program);
    return PyErr_Occurred() ? -1 : 0;
}

int ends_visit(ends_log *from, visitproc visit, void *arg)
{
    Py_VISIT(from->append);
    Py_VISIT(from->records);
    return seam_visit(from, values, visit, arg);
}

void ends_clear(ends_log *from)
{
    Py_CLEAR(from->append);
    Py_CLEAR(from->records);
    seam_clear(from, values);
}

void ends_free(ends_log *from)
{
    PyMem_Free(from->counted);
    lines_free(from->lines);
}

Py_ssize_t ends_count(const ends_log *from)
{
    return (from->records != NULL ? PyList_GET_SIZE(from->records) : 0) +
           (from->lines != NULL ? lines_count(from->lines) : 0);
}

int ends_put(ends_log *from)
{
    PyObject *some = from->records, *done;

    if (some != NULL)
        from->records = NULL;
    else if (from->lines != NULL && lines_count(from->lines) > 0)
        some = lines_take(from->lines);
    else
        return 0;
    done = some != NULL ? PyObject_CallOneArg(from->append, some) : NULL;
    Py_XDECREF(some);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

PyObject *ends_addr(const engine *self, const plain_request *served)
{
    PyObject *addr = NULL;

    if (self->ends.noted == NULL)
        return NULL;
    if (served->changes != NULL)
        addr = PyDict_GetItem(served->changes, s_remote_addr);
    if (addr == NULL)
        addr = self->peers[served->arrival.fd].addr;
    Py_XINCREF(addr);
    return addr;
}

int ends_is_slow(const engine *self, const plain_request *served)
{
    return self->ends.slow_seconds < Py_HUGE_VAL &&
           serve_now() - served->arrived_at >= self->ends.slow_seconds;
}

static char *put_pair(char *to, octets name, octets value)
{
    to = text_put(to, name);
    *to++ = 0;
    to = text_put(to, value);
    *to++ = 0;
    return to;
}

/* The next field that a proxy's words change. */
static int next_change(PyObject *changes, Py_ssize_t *at, octets *name,
                       octets *value)
{
    PyObject *key, *to;

    while (PyDict_Next(changes, at, &key, &to))
        if (text_octets(key, name) && begins_with(*name, OCTETS("HTTP_")) &&
            text_octets(to, value))
            return 1;
    return 0;
}

/* Vars as the app sees them: with a name that was made, then the claims of a
 * proxy; Host keeps its place. */
static PyObject *changed_vars(octets vars, const plain_request *served)
{
    PyObject *changes = served->changes, *new_host = NULL, *made;
    octets id = {served->made_id, served->made_id_size}, name, value;
    const char *at = vars.at, *end = at + vars.size;
    size_t cap = vars.size + id.size + 32;
    Py_ssize_t place = 0;
    char *begin, *to;

    while (changes != NULL && next_change(changes, &place, &name, &value))
        cap += name.size + value.size + 2;
    to = begin = PyMem_Malloc(cap);
    if (to == NULL)
        return PyErr_NoMemory();
    if (changes != NULL)
        new_host = PyDict_GetItem(changes, s_host);
    while (at < end && text_pair(&at, end, &name, &value)) {
        if (new_host != NULL && is_equal(name, OCTETS("HTTP_HOST")))
            text_octets(new_host, &value);
        to = put_pair(to, name, value);
    }
    if (id.size > 0)
        to = put_pair(to, OCTETS("HTTP_X_REQUEST_ID"), id);
    place = 0;
    while (changes != NULL && next_change(changes, &place, &name, &value))
        if (!is_equal(name, OCTETS("HTTP_HOST")))
            to = put_pair(to, name, value);
    made =
        PyUnicode_DecodeLatin1(begin, to > begin ? to - begin - 1 : 0, NULL);
    PyMem_Free(begin);
    return made;
}

/* The vars as the app's gateway has them. */
static PyObject *new_vars(const plain_request *served)
{
    octets vars = {served->vars, served->arrival.vars_len};
    taken_vars taken;

    if ((served->arrival.flags & HTTP1_FORWARDED) != 0 &&
        taken_out(vars, served->arrival.nfirst, TAKEN_FORWARDED, &taken))
        vars = (octets){taken.rest, taken.size};
    if (served->changes != NULL || served->made_id_size > 0)
        return changed_vars(vars, served);
    return PyUnicode_DecodeLatin1(vars.at, (Py_ssize_t)vars.size, NULL);
}

/* As Ended of core/ends.py; takes `addr`. */
static PyObject *new_end(const engine *self, const plain_request *served,
                         PyObject *addr, size_t size, int is_gone,
                         double ended_at)
{
    int is_front = self->services[served->arrival.listener].is_front;
    PyObject *items[ENDED_COUNT] = {
        [ENDED_vars] = new_vars(served),
        [ENDED_is_from_front] = PyBool_FromLong(is_front),
        [ENDED_addr] = addr,
        [ENDED_status] = PyLong_FromLong(served->facts.code),
        [ENDED_size] = PyLong_FromSize_t(size),
        [ENDED_end] = new_reference(is_gone ? s_client_gone : s_answered),
        [ENDED_arrived_at] = PyFloat_FromDouble(served->arrived_at),
        [ENDED_began_at] = PyFloat_FromDouble(served->began_at),
        [ENDED_left_at] = new_reference(not_yet),
        [ENDED_ended_at] = PyFloat_FromDouble(ended_at),
        [ENDED_thread_id] = PyLong_FromUnsignedLong(served->thread_id),
        [ENDED_has_app_failed] = new_reference(Py_False),
        [ENDED_head] =
            self->ends.wants_head
                ? PyBytes_FromStringAndSize(served->buffer,
                                            (Py_ssize_t)served->facts.size)
                : new_reference(no_head)};

    return seam_new(&seam_ended, self->ended, items);
}

/* Whether an end may wait for others: as in Ends.write. */
static int may_wait(const engine *self, const plain_request *served,
                    double ended_at)
{
    const ends_log *log = &self->ends;
    Py_ssize_t count = log->noted != NULL
                           ? PyObject_Size(log->noted) + ends_count(log)
                           : log->counted->count;

    return (ended_at - served->arrived_at < log->soon ||
            batch_is_waiting(self) || PyObject_Size(self->jobs) > 0) &&
           count < log->most && ended_at < log->due_at;
}

/* Add a line.  Returns 1; 0: it is Python's to make; -1: with an exception. */
static int note_line(engine *self, const plain_request *served, PyObject *addr,
                     size_t size, int is_gone, double ended_at)
{
    line_end end = {
        .vars = {served->vars, served->arrival.vars_len},
        .is_front = self->services[served->arrival.listener].is_front,
        .changes = served->changes,
        .made_id = {served->made_id, served->made_id_size},
        .status = served->facts.code,
        .size = size,
        .is_gone = is_gone,
        .arrived_at = served->arrived_at,
        .began_at = served->began_at,
        .ended_at = ended_at,
        .thread_id = served->thread_id,
    };

    if (self->ends.lines == NULL || !text_octets(addr, &end.addr))
        return 0;
    end.thread_key = PyThreadState_GetID(PyThreadState_Get());
    if (lines_prepare(self->ends.lines, &end) < 0)
        return -1;
    if (!lines_add(self->ends.lines, &end))
        return 0;
    /* Records that came before go first; there were no lines beside them. */
    if (self->ends.records != NULL && ends_put(&self->ends) < 0)
        return -1;
    return 1;
}

static int add_record(engine *self, PyObject *record)
{
    ends_log *log = &self->ends;
    PyObject *records;

    if (log->records == NULL) {
        records = PyList_New(0); /* may run other threads */
        if (records == NULL)
            return -1;
        if (log->records == NULL && ends_put(log) == 0)
            log->records = records;
        else
            Py_DECREF(records);
    }
    return log->records != NULL ? PyList_Append(log->records, record) : -1;
}

/* Keep a line, or a record.  Returns -1 with an exception. */
static int note(engine *self, const plain_request *served, PyObject *addr,
                size_t size, int is_gone, double ended_at)
{
    int result = note_line(self, served, addr, size, is_gone, ended_at);
    PyObject *made;

    if (result != 0) {
        Py_DECREF(addr);
        return result;
    }
    made = new_end(self, served, addr, size, is_gone, ended_at);
    result = made != NULL ? add_record(self, made) : -1;
    Py_XDECREF(made);
    return result;
}

void ends_note(engine *self, const plain_request *served, PyObject *addr,
               size_t size, int is_gone)
{
    double ended_at, began_at = served->began_at;
    PyObject *done;

    if (self->ends.flush == NULL)
        return;
    ended_at = serve_now();
    if (self->ends.counted != NULL)
        counts_add(self->ends.counted, served->facts.code, is_gone, size,
                   began_at > 0.0, began_at - served->arrived_at,
                   ended_at - began_at);
    if (addr != NULL && note(self, served, addr, size, is_gone, ended_at) < 0)
        serve_report(self);
    if (may_wait(self, served, ended_at))
        return;
    self->ends.due_at = ended_at + LONGEST;
    done = PyObject_CallNoArgs(self->ends.flush);
    if (done == NULL)
        serve_report(self);
    Py_XDECREF(done);
}
