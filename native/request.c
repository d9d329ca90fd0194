/* request.c -- the app's callables: start_response, write, wsgi.early_hints.
 * Long: all functions change the state of one request. */
#include "engine.h"
#include "seam.h"

#include <pythread.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <structmember.h>

/* Slots of a connection and of a stream, whose `exchange` is a property. */
static PyObject *s_exchange, *s_stream_exchange;

int request_init(void)
{
    s_exchange = PyUnicode_InternFromString("exchange");
    s_stream_exchange = PyUnicode_InternFromString("_exchange");
    return s_exchange != NULL && s_stream_exchange != NULL ? 0 : -1;
}

/* write, or wsgi.early_hints.  A type of its own, so that it need not be made
 * anew for each request, as a bound method is. */
struct method {
    PyObject_HEAD vectorcallfunc call;
    plain_request *of; /* borrowed, unless it is the app's own by now */
    int owns;
    const char *name;
};

/* Promote it for the app, which has called.  The code that makes the twin is
 * ours, and no interrupt may hit there, should another thread publish its own
 * meanwhile: there is no token until the twin is made.  Then the guards of
 * deadlines.py take it, as in any call from the app. */
static PyObject *promote_inside(plain_request *self)
{
    int is_worker =
        self->is_inside && PyThread_get_thread_ident() == self->thread_id;
    PyObject *twin;

    if (is_worker)
        self->is_inside = 0;
    twin = request_promote(self);
    if (is_worker)
        request_interruptible_begin(self);
    return twin;
}

/* The Response that goes on. Borrowed. */
static PyObject *response_of(plain_request *self)
{
    PyObject *late;

    if (self->response != NULL || promote_inside(self) != NULL ||
        PyErr_Occurred())
        return self->response;
    /* The app calls after the end: Python raises the right error. */
    late = PyObject_CallMethod(
        self->engine->owner, "late_response", "Iy#iL", self->arrival.listener,
        self->buffer, (Py_ssize_t)(self->has_head ? self->facts.size : 0),
        self->has_head ? self->facts.code : 0, self->facts.length);
    if (self->response == NULL) {
        self->response = late;
    } else { /* another thread was quicker */
        Py_XDECREF(late);
        PyErr_Clear();
    }
    return self->response;
}

static PyObject *pass_on(plain_request *self, const char *name,
                         PyObject *const *args, size_t nargsf,
                         PyObject *kwnames)
{
    PyObject *response = response_of(self), *function, *result;

    if (response == NULL) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_RuntimeError, "the request has no response");
        return NULL;
    }
    Py_INCREF(response); /* another may take its place */
    function = PyObject_GetAttrString(response, name);
    Py_DECREF(response);
    if (function == NULL)
        return NULL;
    result = PyObject_Vectorcall(function, args,
                                 (size_t)PyVectorcall_NARGS(nargsf), kwnames);
    Py_DECREF(function);
    return result;
}

static PyObject *call_method(PyObject *callable, PyObject *const *args,
                             size_t nargsf, PyObject *kwnames)
{
    method *self = (method *)callable;

    return pass_on(self->of, self->name, args, nargsf, kwnames);
}

/* Whether the arguments are a status and headers; middleware passes exc_info
 * on, which is None as long as nothing has gone wrong. */
static int is_first_call(PyObject *const *args, Py_ssize_t nargs)
{
    return nargs == 2 || (nargs == 3 && args[2] == Py_None);
}

/* start_response(status, headers[, exc_info]) */
static PyObject *start_response(PyObject *callable, PyObject *const *args,
                                size_t nargsf, PyObject *kwnames)
{
    plain_request *self = (plain_request *)callable;

    if (is_first_call(args, PyVectorcall_NARGS(nargsf)) && kwnames == NULL &&
        self->state == REQUEST_RUNNING && self->twin == NULL &&
        !self->has_head &&
        head_make(self->buffer, REQUEST_HEAD_CAP,
                  self->engine->services[self->arrival.listener].prefix,
                  args[0], args[1], &self->facts)) {
        self->has_head = 1;
        Py_INCREF(self->write);
        return (PyObject *)self->write;
    }
    return pass_on(self, "start_response", args, nargsf, kwnames);
}

static PyObject *octets_or_none(PyObject *bytes)
{
    PyObject *found = bytes != NULL ? bytes : Py_None;

    Py_INCREF(found);
    return found;
}

/* The request as it is at this moment: none of these values is an object that
 * the collector tracks, so no other code runs meanwhile. */
static PyObject *new_state(const plain_request *self)
{
    const lane_arrival *arrival = &self->arrival;
    int has_head = self->has_head;
    PyObject *items[STATE_COUNT] = {
        [STATE_fd] = PyLong_FromLong(arrival->fd),
        [STATE_listener] = PyLong_FromUnsignedLong(arrival->listener),
        [STATE_vars] =
            PyBytes_FromStringAndSize(self->vars, arrival->vars_len),
        [STATE_own_count] = PyLong_FromUnsignedLong(arrival->nfirst),
        [STATE_flags] = PyLong_FromUnsignedLong(arrival->flags),
        [STATE_modifier1] = PyLong_FromUnsignedLong(arrival->modifier1),
        [STATE_body] = octets_or_none(self->body),
        [STATE_arrived_at] = PyFloat_FromDouble(self->arrived_at),
        [STATE_began_at] = PyFloat_FromDouble(self->began_at),
        [STATE_thread_id] = PyLong_FromUnsignedLong(self->thread_id),
        [STATE_keep_alive] = PyBool_FromLong(self->keep_alive),
        [STATE_is_begun] = PyBool_FromLong(self->state == REQUEST_RUNNING),
        [STATE_is_inside] = PyBool_FromLong(self->is_inside),
        [STATE_head] = PyBytes_FromStringAndSize(
            self->buffer, has_head ? (Py_ssize_t)self->facts.size : 0),
        [STATE_code] = PyLong_FromLong(has_head ? self->facts.code : 0),
        [STATE_length] = PyLong_FromLongLong(self->facts.length),
        [STATE_sent_bytes] = PyLong_FromLongLong(self->sent),
        [STATE_is_full] = PyBool_FromLong(self->is_full),
        [STATE_unsent] = octets_or_none(self->unsent),
        [STATE_made_id] = PyBytes_FromStringAndSize(
            self->made_id, (Py_ssize_t)self->made_id_size)};

    return seam_new(&seam_state, self->engine->state, items);
}

/* Python's objects for a request as it is: (exchange, connection, response or
 * None, run or None).  No other code has them yet.  `promote`: the method
 * of the engine's owner: to look it up may run the collector, other threads,
 * and the end of this request. */
static PyObject *make_twin(plain_request *self, PyObject *promote)
{
    PyObject *state = new_state(self), *made = NULL;

    if (state != NULL)
        made = PyObject_CallOneArg(promote, state);
    Py_XDECREF(state);
    return made;
}

/* From now on the deadline of it is watched. */
static int add_run(plain_request *self, PyObject *run)
{
    PyObject *thread_id = PyLong_FromUnsignedLong(self->thread_id);
    int result = -1;

    if (thread_id != NULL)
        result = PyDict_SetItem(self->engine->runs, thread_id, run);
    Py_XDECREF(thread_id);
    if (result == 0) {
        Py_INCREF(run);
        self->run = run;
    }
    return result;
}

/* Let the sending thread find out how much of a piece is out. */
static void await_sent(void)
{
    Py_BEGIN_ALLOW_THREADS sched_yield();
    Py_END_ALLOW_THREADS
}

/* Publish a twin.  No Python code may run before all of it is visible, or a
 * thread would find half of it.  So none of these steps may release the GIL:
 * the values that they replace in `connections`, in the slot and in `runs` are
 * absent or None, so no finalizer runs; and none makes an object that the
 * collector tracks.  Without memory, none of it is published. */
static int publish(plain_request *self, PyObject *made)
{
    engine *its = self->engine;
    PyObject *exchange, *connection, *response, *run, *fd;
    int result;

    if (!PyArg_ParseTuple(made, "OOOO", &exchange, &connection, &response,
                          &run) ||
        (fd = PyLong_FromLong(self->arrival.fd)) == NULL)
        return -1;
    its->peers[self->arrival.fd].has_connection = 1;
    result = PyDict_SetItem(its->connections, fd, connection);
    if (result == 0)
        result = PyObject_SetAttr(
            connection,
            self->arrival.carrier != 0 ? s_stream_exchange : s_exchange,
            exchange);
    Py_DECREF(fd);
    if (result == 0 && run != Py_None)
        result = add_run(self, run);
    if (result < 0)
        return -1;
    Py_INCREF(exchange);
    self->twin = exchange;
    if (response != Py_None) {
        Py_INCREF(response);
        Py_XSETREF(self->response, response);
    }
    its->npromoted++;
    return 0;
}

PyObject *request_promote(plain_request *self)
{
    PyObject *made = NULL, *promote = NULL;

    Py_INCREF(self);
    if (self->twin == NULL && self->state != REQUEST_OVER)
        promote = PyObject_GetAttrString(self->engine->owner, "promote");
    while (promote != NULL && self->twin == NULL &&
           self->state != REQUEST_OVER) {
        int state, has_head, is_full, is_inside;
        long long sent;

        /* A forked child has no such thread, and sends nothing: it need not
         * wait. */
        if (self->is_sending && !engine_is_child(self->engine)) {
            await_sent();
            continue; /* anything may have come meanwhile */
        }
        state = self->state, has_head = self->has_head;
        is_full = self->is_full, sent = self->sent;
        is_inside = self->is_inside;
        made = make_twin(self, promote);
        if (made == NULL)
            break;
        /* The app may have gone on, and another thread may have been quicker:
         * look, and publish without running Python in between. */
        if (self->twin == NULL && self->state == state &&
            self->has_head == has_head && self->is_inside == is_inside &&
            self->sent == sent && self->is_full == is_full &&
            publish(self, made) < 0)
            break;
        Py_CLEAR(made);
    }
    Py_XDECREF(made);
    Py_XDECREF(promote);
    if (self->twin != NULL || self->state == REQUEST_OVER)
        PyErr_Clear(); /* the objects are not needed any more */
    made = PyErr_Occurred() ? NULL : self->twin;
    Py_DECREF(self);
    return made;
}

/* --- where an interrupt may hit: wsgi/deadlines.py -------------------------- */

/* The list that has the token.  To put it there, or to take it, runs no
 * bytecode, in which an interrupt could hit. */
static PyObject *token_of(const plain_request *self)
{
    PyObject *list = PyObject_GetAttrString(self->run, "_interruptible");

    if (list != NULL && !PyList_CheckExact(list))
        Py_CLEAR(list);
    return list;
}

void request_interruptible_begin(plain_request *self)
{
    PyObject *type, *value, *traceback, *list;

    self->is_inside = 1;
    if (self->run == NULL)
        return;
    PyErr_Fetch(&type, &value, &traceback);
    list = token_of(self);
    if (list == NULL || PyList_Append(list, Py_None) < 0) {
        PyErr_Clear(); /* no memory: it counts as interrupted already */
        if (PyObject_SetAttrString(self->run, "is_interrupted", Py_True) < 0)
            PyErr_Clear();
    }
    Py_XDECREF(list);
    PyErr_Restore(type, value, traceback);
}

/* Returns 0: an interrupt was made, or is just being made; or the twin was
 * published while this worker was in a call from the app. */
static int take_token(const plain_request *self)
{
    PyObject *list = token_of(self);
    Py_ssize_t size = list != NULL ? PyList_GET_SIZE(list) : 0;

    if (size > 0)
        PyList_SetSlice(list, 0, size, NULL);
    Py_XDECREF(list);
    PyErr_Clear();
    return size > 0;
}

void request_interruptible_end(plain_request *self)
{
    PyObject *type, *value, *traceback, *done;

    self->is_inside = 0;
    if (self->run == NULL)
        return;
    PyErr_Fetch(&type, &value, &traceback);
    if (!take_token(self)) {
        done = PyObject_CallMethod(self->run, "_disarm", NULL);
        if (done == NULL && type != NULL) {
            Py_CLEAR(type);
            Py_CLEAR(value);
            Py_CLEAR(traceback);
            PyErr_Fetch(&type, &value, &traceback);
        } else if (done == NULL) {
            PyErr_Clear(); /* too late: it has done no harm */
        }
        Py_XDECREF(done);
    }
    PyErr_Restore(type, value, traceback);
}

/* --- beginning and end ----------------------------------------------------- */

static method *new_method(plain_request *of, const char *name)
{
    method *made = PyObject_New(method, &method_type);

    if (made != NULL) {
        made->call = call_method;
        made->of = of;
        made->owns = 0;
        made->name = name;
    }
    return made;
}

static plain_request *new_request(void)
{
    plain_request *made = PyObject_New(plain_request, &request_type);

    if (made == NULL)
        return NULL;
    memset((char *)made + offsetof(plain_request, call), 0,
           offsetof(plain_request, buffer) - offsetof(plain_request, call));
    made->call = start_response;
    made->state = REQUEST_OVER;
    made->write = new_method(made, "write");
    made->early_hints = new_method(made, "early_hints");
    if (made->write == NULL || made->early_hints == NULL)
        Py_CLEAR(made);
    return made;
}

plain_request *request_new(engine *owner, const lane_arrival *arrival,
                           const char *vars, PyObject *body, double arrived_at)
{
    plain_request *made =
        owner->nfree > 0 ? owner->free[--owner->nfree] : new_request();

    if (made == NULL)
        return NULL;
    Py_INCREF(owner);
    made->engine = owner;
    made->arrival = *arrival;
    made->vars = vars;
    Py_XINCREF(body);
    made->body = body;
    made->arrived_at = arrived_at;
    made->began_at = 0.0;
    made->thread_id = 0;
    made->keep_alive = 0;
    made->state = REQUEST_WAITING;
    made->is_inside = 0;
    made->has_head = made->is_full = made->is_sending = 0;
    made->sent = -1;
    made->facts.length = -1;
    made->told_id = (octets){NULL, 0};
    made->made_id_size = 0;
    made->next = owner->requests;
    made->previous = NULL;
    if (made->next != NULL)
        made->next->previous = made;
    owner->requests = made;
    return made;
}

int request_keep_vars(plain_request *self)
{
    size_t size = self->arrival.vars_len;

    self->own_vars = PyMem_Malloc(size > 0 ? size : 1);
    if (self->own_vars == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(self->own_vars, self->vars, size);
    self->vars = self->own_vars;
    return 0;
}

static void unlink_request(plain_request *self)
{
    if (self->next != NULL)
        self->next->previous = self->previous;
    if (self->previous != NULL)
        self->previous->next = self->next;
    else if (self->engine->requests == self)
        self->engine->requests = self->next;
    self->next = self->previous = NULL;
}

/* `write` and `early_hints` are parts of a request: it counts them, they do not
 * count it, and both are used again with it.  One that the app has kept is the
 * app's from now on, and counts the request. */
static int give_away(plain_request *self, method **given)
{
    if (Py_REFCNT(*given) == 1)
        return 0;
    Py_INCREF(self);
    (*given)->owns = 1;
    Py_CLEAR(*given);
    return 1;
}

void request_end(plain_request *self)
{
    engine *its = self->engine;
    int is_kept;

    unlink_request(self);
    self->state = REQUEST_OVER;
    self->vars = NULL;
    PyMem_Free(self->own_vars);
    self->own_vars = NULL;
    Py_CLEAR(self->body);
    Py_CLEAR(self->changes);
    Py_CLEAR(self->run);
    Py_CLEAR(self->unsent);
    is_kept = give_away(self, &self->write);
    is_kept |= give_away(self, &self->early_hints);
    if (is_kept || Py_REFCNT(self) > 1) {
        Py_DECREF(self); /* the app may still call the twin */
        return;
    }
    Py_CLEAR(self->twin);
    Py_CLEAR(self->response);
    if (its->nfree == REQUEST_FREE_MAX) {
        Py_DECREF(self);
        return;
    }
    self->engine = NULL;
    its->free[its->nfree++] = self;
    Py_DECREF(its);
}

static void dealloc_request(PyObject *object)
{
    plain_request *self = (plain_request *)object;

    if (self->state != REQUEST_OVER)
        unlink_request(self);
    PyMem_Free(self->own_vars);
    Py_XDECREF(self->body);
    Py_XDECREF(self->changes);
    Py_XDECREF(self->unsent);
    Py_XDECREF(self->twin);
    Py_XDECREF(self->response);
    Py_XDECREF(self->run);
    Py_XDECREF(self->write);
    Py_XDECREF(self->early_hints);
    Py_XDECREF(self->engine);
    PyObject_Free(self);
}

static void dealloc_method(PyObject *object)
{
    method *self = (method *)object;

    if (self->owns)
        Py_DECREF(self->of);
    PyObject_Free(self);
}

/* --- what Python sees ------------------------------------------------------ */

static PyObject *promote(PyObject *object, PyObject *unused)
{
    PyObject *exchange = request_promote((plain_request *)object);

    (void)unused;
    if (exchange == NULL && !PyErr_Occurred())
        exchange = Py_None;
    Py_XINCREF(exchange);
    return exchange;
}

static PyMethodDef request_methods[] = {
    {"promote", promote, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef request_members[] = {
    {"modifier1", T_UINT, offsetof(plain_request, arrival.modifier1), READONLY,
     NULL},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject request_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "aserve._native.Request",
    .tp_basicsize = sizeof(plain_request),
    .tp_dealloc = dealloc_request,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(plain_request, call),
    .tp_methods = request_methods,
    .tp_members = request_members,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
};

PyTypeObject method_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "aserve._native.Method",
    .tp_basicsize = sizeof(method),
    .tp_dealloc = dealloc_method,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(method, call),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
};
