/* serve.c -- one plain request: environ, app, head, send.  Long: the steps are
 * read in one go. */
#include "call.h"
#include "ends.h"
#include "stream.h"

#include <pythread.h>
#include <string.h>
#include <time.h>

static PyObject *s_input, *s_early_hints, *s_method;

int serve_init(void)
{
    s_input = PyUnicode_InternFromString("wsgi.input");
    s_early_hints = PyUnicode_InternFromString("wsgi.early_hints");
    s_method = PyUnicode_InternFromString("REQUEST_METHOD");
    return s_input && s_early_hints && s_method ? 0 : -1;
}

double serve_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The environ without the values made for each request, of vars that are perhaps
 * not all of the request's.  Returns as environ_new. */
static PyObject *begin_environ(engine *self, plain_request *served,
                               octets vars)
{
    const lane_arrival *arrival = &served->arrival;
    engine_service *service = &self->services[arrival->listener];
    engine_peer *peer = &self->peers[arrival->fd];
    environ_request asked = {vars.at,           vars.size,  arrival->nfirst,
                             service->is_front, peer->addr, peer->port};
    PyObject *base = peer->base != NULL ? peer->base : service->base, *env;

    if (asked.addr == NULL) /* is_plain has seen it: for safety alone */
        return NULL;
    Py_INCREF(asked.addr); /* to make a dict may run other threads */
    Py_INCREF(asked.port);
    Py_INCREF(base);
    env = environ_new(&self->environs, base, &asked, &peer->section);
    Py_DECREF(base);
    Py_DECREF(asked.addr);
    Py_DECREF(asked.port);
    return env;
}

/* Whether nothing is there that would be taken out. */
static int has_rest_only(octets vars, int what)
{
    static const char name[] = "\0HTTP_X_REQUEST_ID";

    return what == TAKEN_ID &&
           memmem(vars.at, vars.size, name, sizeof name) == NULL;
}

/* The same of the rest of the vars: the taken pairs come after the dict that
 * they begin, which is then the same for many clients and requests. */
static PyObject *begin_rest(engine *self, plain_request *served, octets vars,
                            int what)
{
    uint32_t belief = self->peers[served->arrival.fd].belief;
    PyObject *env;
    taken_vars taken;

    taken.id = (octets){NULL, 0};
    if (!has_rest_only(vars, what)) {
        if (!taken_out(vars, served->arrival.nfirst, what, &taken))
            return NULL;
        vars = (octets){taken.rest, taken.size};
    }
    if ((what & TAKEN_FORWARDED) != 0 && belief == FORWARDED_BELIEVED) {
        Py_XSETREF(served->changes, forwarded_changes(self, served, &taken));
        if (served->changes == NULL)
            return NULL;
    }
    env = begin_environ(self, served, vars);
    if (env != NULL && served->changes != NULL &&
        PyDict_Update(env, served->changes) < 0)
        Py_CLEAR(env);
    if (env != NULL && (what & TAKEN_ID) != 0 &&
        request_id_set(self, served, taken.id, env) <= 0)
        Py_CLEAR(env);
    return env;
}

/* The pairs taken out of the vars before: TAKEN_FORWARDED | TAKEN_ID. */
static int taken_of(const engine *self, const lane_arrival *arrival)
{
    return ((arrival->flags & HTTP1_FORWARDED) != 0 ? TAKEN_FORWARDED : 0) |
           (self->services[arrival->listener].id_field != NULL ? TAKEN_ID : 0);
}

/* The environ; NULL: with an exception, or without one: not plain. */
static PyObject *environ_of(engine *self, plain_request *served)
{
    octets vars = {served->vars, served->arrival.vars_len};
    int what = taken_of(self, &served->arrival);
    PyObject *env = what == 0 ? begin_environ(self, served, vars)
                              : begin_rest(self, served, vars, what);
    PyObject *input;

    if (env == NULL)
        return NULL;
    input = served->body == NULL
                ? PyObject_CallNoArgs(self->new_input)
                : PyObject_CallOneArg(self->new_input, served->body);
    if (input == NULL || PyDict_SetItem(env, s_input, input) < 0 ||
        PyDict_SetItem(env, s_early_hints, (PyObject *)served->early_hints) <
            0)
        Py_CLEAR(env);
    Py_XDECREF(input);
    return env;
}

/* HTTP's parser says it; a front server's is in its vars. */
static int is_head(engine *self, plain_request *served, PyObject *env)
{
    PyObject *name;

    if (!self->services[served->arrival.listener].is_front)
        return (served->arrival.flags & HTTP1_HEAD) != 0;
    name = PyDict_GetItem(env, s_method);
    return name != NULL && PyUnicode_Check(name) &&
           PyUnicode_CompareWithASCIIString(name, "HEAD") == 0;
}

/* The app's body as one bytes; NULL: with an exception, or not plain. */
static PyObject *join(PyObject *pieces)
{
    Py_ssize_t count = PyList_GET_SIZE(pieces), size = 0;
    PyObject *joined, *piece;
    char *to;

    if (count == 1 && PyBytes_CheckExact(PyList_GET_ITEM(pieces, 0))) {
        joined = PyList_GET_ITEM(pieces, 0);
        Py_INCREF(joined);
        return joined;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        piece = PyList_GET_ITEM(pieces, i);
        if (!PyBytes_CheckExact(piece) || PyBytes_GET_SIZE(piece) > BODY_MAX ||
            (size += PyBytes_GET_SIZE(piece)) > BODY_MAX)
            return NULL;
    }
    joined = PyBytes_FromStringAndSize(NULL, size);
    if (joined == NULL)
        return NULL;
    to = PyBytes_AS_STRING(joined);
    for (Py_ssize_t i = 0; i < count; i++) {
        piece = PyList_GET_ITEM(pieces, i);
        memcpy(to, PyBytes_AS_STRING(piece), (size_t)PyBytes_GET_SIZE(piece));
        to += PyBytes_GET_SIZE(piece);
    }
    return joined;
}

/* The body, if one write can send it; NULL: with an exception, or not plain. */
static PyObject *body_of(engine *self, plain_request *served, PyObject *list,
                         int has_no_body)
{
    PyObject *body;

    if (!request_is_plain(self, served) || !served->has_head ||
        ends_is_slow(self, served))
        return NULL;
    body = join(list);
    if (body != NULL && (PyBytes_GET_SIZE(body) > BODY_MAX ||
                         (!has_no_body && served->facts.length >= 0 &&
                          served->facts.length != PyBytes_GET_SIZE(body))))
        Py_CLEAR(body);
    return body;
}

static char *put_length(char *to, size_t length)
{
    to = text_put_number(text_put(to, OCTETS("Content-Length: ")), length, 10);
    return text_put(to, OCTETS("\r\n"));
}

static char *put_id(char *to, PyObject *field, octets id)
{
    size_t size = (size_t)PyBytes_GET_SIZE(field);

    if (size == 0)
        return to;
    memcpy(to, PyBytes_AS_STRING(field), size);
    memcpy(to + size, id.at, id.size);
    return text_put(to + size + id.size, OCTETS("\r\n"));
}

char *serve_put_tail(engine *self, plain_request *served, char *to)
{
    uint32_t listener = served->arrival.listener;
    int is_front = self->services[listener].is_front;
    PyObject *tail =
        self->set->listeners[listener].is_tls ? self->tls_tail : self->tail;

    if (!served->keep_alive && !is_front)
        to = text_put(to, OCTETS("Connection: close\r\n"));
    if (served->told_id.size > 0)
        to = put_id(to, self->services[served->arrival.listener].id_field,
                    served->told_id);
    memcpy(to, PyBytes_AS_STRING(tail), (size_t)PyBytes_GET_SIZE(tail));
    return to + PyBytes_GET_SIZE(tail);
}

/* Add the end of the head, after the app's part, and a body that has room. */
static uint32_t end_head(engine *self, plain_request *served, octets *body,
                         int has_no_body)
{
    char *to = served->buffer + served->facts.size;

    if (served->facts.length < 0 && (!has_no_body || body->size > 0))
        to = put_length(to, body->size);
    to = serve_put_tail(self, served, to);
    if (has_no_body)
        body->size = 0;
    if (body->size <= (size_t)(served->buffer + REQUEST_BUFFER_CAP - to)) {
        memcpy(to, body->at, body->size);
        to += body->size;
        body->size = 0;
    }
    return (uint32_t)(to - served->buffer);
}

int serve_go_on(engine *self, plain_request *served, const char *name,
                PyObject *argument)
{
    PyObject *exchange = request_promote(served), *done = NULL;

    if (exchange != NULL)
        done =
            PyObject_CallMethod(self->owner, name, "OOO", exchange,
                                argument != NULL ? argument : Py_None,
                                served->run != NULL ? served->run : Py_None);
    if (done == NULL)
        return -1;
    Py_DECREF(done);
    return 1;
}

/* The octets that the socket has not taken, and the size of the whole body:
 * for Native.leave. */
static PyObject *rest_of(octets head, octets body, int sent, size_t body_size)
{
    const struct iovec parts[] = {{(char *)head.at, head.size},
                                  {(char *)body.at, body.size}};
    PyObject *rest = stream_unsent(parts, 2, (size_t)sent);

    if (rest == NULL)
        return NULL;
    return Py_BuildValue("Nn", rest, (Py_ssize_t)body_size);
}

int serve_send(engine *self, plain_request *served, octets head, octets body,
               size_t body_size)
{
    uint32_t whole = (uint32_t)(head.size + body.size);
    int fd = served->arrival.fd, sent;
    PyObject *rest, *addr = ends_addr(self, served);
    int result;

    served->state = REQUEST_OVER;
    if (whole > HELD_MAX) {
        Py_BEGIN_ALLOW_THREADS sent =
            self->reply(self->set, fd, head.at, (uint32_t)head.size, body.at,
                        (uint32_t)body.size, served->keep_alive);
        Py_END_ALLOW_THREADS
    } else {
        sent = self->reply(self->set, fd, head.at, (uint32_t)head.size,
                           body.at, (uint32_t)body.size, served->keep_alive);
    }
    if (sent == (int)whole || sent == LANE_LOST || sent == LANE_LATE) {
        self->nplain++;
        ends_note(self, served, addr, body_size, sent != (int)whole);
        return 0;
    }
    Py_XDECREF(addr);
    served->state = REQUEST_RUNNING; /* the event loop sends the rest */
    if (sent == LANE_UNSENT)
        sent = 0;
    else if (sent == LANE_HELD)
        sent = (int)whole;
    rest = rest_of(head, body, sent, body_size);
    if (rest == NULL)
        return -1;
    result = serve_go_on(self, served, "leave", rest);
    Py_DECREF(rest);
    return result;
}

/* Send head and body. */
static int send_whole(engine *self, plain_request *served, PyObject *sent_body,
                      int has_no_body)
{
    octets body = {PyBytes_AS_STRING(sent_body),
                   (size_t)PyBytes_GET_SIZE(sent_body)};
    octets head = {served->buffer, end_head(self, served, &body, has_no_body)};

    return serve_send(self, served, head, body,
                      has_no_body ? 0 : (size_t)PyBytes_GET_SIZE(sent_body));
}

PyObject *serve_take_exception(void)
{
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value != NULL && traceback != NULL)
        PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

static int fail(engine *self, plain_request *served)
{
    PyObject *value = serve_take_exception();
    int result = serve_go_on(self, served, "fail", value);

    Py_XDECREF(value);
    return result;
}

/* Send a body that is all there. */
static int send_list(engine *self, plain_request *served, PyObject *list,
                     int has_no_body)
{
    PyObject *body = body_of(self, served, list, has_no_body);
    int result;

    if (body == NULL) {
        PyErr_Clear(); /* no memory: the twin finds it out */
        return serve_go_on(self, served, "finish", list);
    }
    result = send_whole(self, served, body, has_no_body);
    Py_DECREF(body);
    return result;
}

/* Call the app, and send its response.  The environ may be the app's last
 * one, and finalizers of its values may call write().  So it is freed when the
 * twin's is: after a list that is sent, and before the first piece of any
 * other iterable. */
static int call_app(engine *self, plain_request *served, PyObject *env)
{
    PyObject *args[3] = {NULL, env, (PyObject *)served};
    PyObject *app = self->services[served->arrival.listener].app;
    int has_no_body = is_head(self, served, env), is_list, result;
    PyObject *iterable;

    served->is_inside = 1; /* it has no run yet */
    iterable = PyObject_Vectorcall(app, args + 1,
                                   2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    request_interruptible_end(served); /* first: Python may run from here on */
    is_list = iterable != NULL && PyList_CheckExact(iterable);
    if (iterable != NULL && !is_list)
        Py_CLEAR(env); /* before the first piece */
    if (iterable == NULL)
        result = fail(self, served);
    else if (is_list)
        result = send_list(self, served, iterable, has_no_body);
    else if (stream_takes(self, served, iterable))
        result = stream(self, served, iterable, has_no_body);
    else
        result = serve_go_on(self, served, "finish", iterable);
    Py_XDECREF(env);
    Py_XDECREF(iterable);
    return result;
}

void serve_report(engine *self)
{
    PyObject *exc = serve_take_exception();
    PyObject *done = PyObject_CallMethod(self->owner, "report", "O",
                                         exc != NULL ? exc : Py_None);

    if (done == NULL)
        PyErr_WriteUnraisable(self->owner);
    Py_XDECREF(done);
    Py_XDECREF(exc);
}

void serve_lose(engine *self, int fd, plain_request *lost)
{
    PyObject *twin, *run, *done;

    if (lost != NULL)
        lost->state = REQUEST_OVER; /* no other thread promotes it meanwhile */
    serve_report(self);
    twin = lost != NULL ? lost->twin : NULL;
    run = lost != NULL ? lost->run : NULL;
    done = PyObject_CallMethod(self->owner, "lose", "iOO", fd,
                               twin != NULL ? twin : Py_None,
                               run != NULL ? run : Py_None);
    if (done == NULL)
        serve_report(self);
    Py_XDECREF(done);
}

/* Make the environ, and call the app with it. */
static int serve_request(engine *self, plain_request *served)
{
    PyObject *env = environ_of(self, served);

    if (env == NULL)
        PyErr_Clear();
    if (served->twin != NULL) /* by another thread, meanwhile */
        Py_CLEAR(env);
    if (env == NULL)
        return serve_go_on(self, served, "run", NULL);
    served->state = REQUEST_RUNNING;
    served->keep_alive = served->keep_alive && !self->is_draining;
    return call_app(self, served, env);
}

int serve(engine *self, plain_request *served)
{
    int result;

    served->thread_id = PyThread_get_thread_ident();
    if (self->takes_times)
        served->began_at = serve_now();
    if (served->twin != NULL)
        result = serve_go_on(self, served, "run", NULL);
    else if (served->arrival.modifier1 == UWSGI_RPC)
        result = call_serve(self, served);
    else
        result = serve_request(self, served);
    if (result < 0 && !PyErr_ExceptionMatches(self->written_off)) {
        serve_lose(self, served->arrival.fd, served);
        result = 1;
    }
    request_end(served);
    return result;
}
