/* stream.c -- a body that the app gives piece by piece: each is sent before
 * the app is asked for the next (PEP 3333, "Buffering and Streaming"). */
#include "stream.h"

#include "ends.h"

#include <string.h>
#include <sys/uio.h>

enum {
    PIECES_HELD = 32, /* after this many, other threads may run */
    PART_COUNT = 3    /* head or size line, a piece, its end */
};

/* The iterable that is sent, and its request. */
typedef struct {
    engine *self;
    plain_request *served;
    PyObject *iterable; /* borrowed */
    PyObject *iterator; /* NULL: it has ended */
    int has_no_body;
} stream_of;

static PyObject *s_close, *s_file_wrapper;

int stream_init(void)
{
    s_close = PyUnicode_InternFromString("close");
    s_file_wrapper = PyUnicode_InternFromString("wsgi.file_wrapper");
    return s_close && s_file_wrapper ? 0 : -1;
}

int stream_takes(const engine *self, const plain_request *served,
                 PyObject *iterable)
{
    PyTypeObject *type = Py_TYPE(iterable);
    PyObject *base = self->services[served->arrival.listener].base;

    return self->runs == NULL && /* else Python times each step */
           request_is_plain(self, served) &&
           (PyObject *)type != PyDict_GetItem(base, s_file_wrapper) &&
           (type->tp_iter != NULL || PySequence_Check(iterable));
}

/* --- sending --------------------------------------------------------------- */

PyObject *stream_unsent(const struct iovec *parts, int count, size_t sent)
{
    size_t whole = 0;
    PyObject *unsent;
    char *to;

    for (int i = 0; i < count; i++)
        whole += parts[i].iov_len;
    unsent = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(whole - sent));
    if (unsent == NULL)
        return NULL;
    to = PyBytes_AS_STRING(unsent);
    for (int i = 0; i < count; i++) {
        octets part = {parts[i].iov_base, parts[i].iov_len};
        size_t skipped = sent < part.size ? sent : part.size;

        if (skipped < part.size)
            to =
                text_put(to, (octets){part.at + skipped, part.size - skipped});
        sent -= skipped;
    }
    return unsent;
}

/* Send all parts; the request says already that they are out.  Returns 1; 0:
 * some are in `unsent`, or the lane holds them; -1: with an exception. */
static int send_parts(engine *self, plain_request *served, struct iovec *parts)
{
    int fd = served->arrival.fd;
    size_t whole = parts[0].iov_len + parts[1].iov_len + parts[2].iov_len;
    uint32_t count = whole == parts[0].iov_len ? 1 : PART_COUNT;
    lane_part pieces[PART_COUNT];
    int64_t sent;

    for (int i = 0; i < PART_COUNT; i++)
        pieces[i] = (lane_part){parts[i].iov_base, parts[i].iov_len};
    served->is_sending = 1; /* no promotion until the result is known */
    if (whole > HELD_MAX) {
        Py_BEGIN_ALLOW_THREADS sent = self->send(self->set, fd, pieces, count);
        Py_END_ALLOW_THREADS
    } else {
        sent = self->send(self->set, fd, pieces, count);
    }
    /* Full, or gone: the event loop meets the same error, and handles it. */
    if (sent == LANE_HELD)
        served->unsent = stream_unsent(parts, PART_COUNT, whole);
    else if (sent != (int64_t)whole)
        served->unsent =
            stream_unsent(parts, PART_COUNT, sent > 0 ? (size_t)sent : 0);
    served->is_sending = 0;
    if (sent == (int64_t)whole)
        return 1;
    return served->unsent != NULL ? 0 : -1;
}

/* Whether chunks show the body's end. */
static int is_chunked(const stream_of *from)
{
    const plain_request *served = from->served;

    return served->facts.length < 0 && !from->has_no_body &&
           served->arrival.carrier == 0 && /* it has frames */
           !from->self->services[served->arrival.listener].is_front;
}

/* Send a piece that is not empty, as Response.encode frames it. */
static int send_piece(stream_of *from, PyObject *piece)
{
    plain_request *served = from->served;
    size_t size = (size_t)PyBytes_GET_SIZE(piece);
    int chunked = is_chunked(from), is_first = served->sent < 0;
    char *begin =
        is_first ? served->buffer : served->buffer + served->facts.size;
    char *to = served->buffer + served->facts.size;
    struct iovec parts[PART_COUNT] = {{begin, 0}, {NULL, 0}, {NULL, 0}};

    if (is_first) {
        if (chunked)
            to = text_put(to, OCTETS("Transfer-Encoding: chunked\r\n"));
        to = serve_put_tail(from->self, served, to);
        served->sent = 0;
    }
    if (from->has_no_body) {
        served->is_full = 1;
        size = 0;
    }
    served->sent += (long long)size;
    if (chunked)
        to = text_put(text_put_number(to, size, 16), OCTETS("\r\n"));
    if (size + 2 <= (size_t)(served->buffer + REQUEST_BUFFER_CAP - to)) {
        memcpy(to, PyBytes_AS_STRING(piece), size);
        to += size;
        if (chunked)
            to = text_put(to, OCTETS("\r\n"));
    } else {
        parts[1] = (struct iovec){PyBytes_AS_STRING(piece), size};
        parts[2] = (struct iovec){"\r\n", chunked ? 2 : 0};
    }
    parts[0].iov_len = (size_t)(to - begin);
    return send_parts(from->self, served, parts);
}

/* Send the end of the response, as Response.finish makes it.  Returns as
 * send_parts does; 0, too, when the body is too short. */
static int send_end(stream_of *from)
{
    plain_request *served = from->served;
    struct iovec parts[PART_COUNT] = {
        {served->buffer + served->facts.size, 0}};
    char *to = served->buffer + served->facts.size;

    if (served->sent < 0 && served->has_head &&
        (served->facts.length <= 0 || from->has_no_body)) {
        parts[0].iov_base = served->buffer;
        if (served->facts.length < 0 && !from->has_no_body)
            to = text_put(to, OCTETS("Content-Length: 0\r\n"));
        to = serve_put_tail(from->self, served, to);
        served->sent = 0;
    } else if (served->sent < 0 ||
               (!from->has_no_body && served->sent < served->facts.length)) {
        return 0;
    } else if (is_chunked(from)) {
        to = text_put(to, OCTETS("0\r\n\r\n"));
    }
    served->is_full = 1;
    parts[0].iov_len = (size_t)(to - (char *)parts[0].iov_base);
    return parts[0].iov_len == 0 ? 1 : send_parts(from->self, served, parts);
}

/* --- going on in Python ---------------------------------------------------- */

/* Let Python go on from here: with a piece that was not sent (or NULL), then
 * with the exception that is set, then with the rest of the iterator. */
static int go_on_in_python(stream_of *from, PyObject *piece, int is_closed)
{
    PyObject *exc = serve_take_exception(), *taken, *rest = NULL;
    int result = -1;

    taken = piece != NULL ? PyTuple_Pack(1, piece) : PyTuple_New(0);
    if (taken != NULL)
        rest = PyTuple_Pack(5, from->iterable,
                            from->iterator != NULL ? from->iterator : Py_None,
                            taken, exc != NULL ? exc : Py_None,
                            is_closed ? Py_True : Py_False);
    if (rest != NULL)
        result = serve_go_on(from->self, from->served, "stream", rest);
    Py_XDECREF(taken);
    Py_XDECREF(exc);
    Py_XDECREF(rest);
    return result;
}

/* --- the order of it all --------------------------------------------------- */

/* Whether C understands a piece, and may send it. */
static int is_plain_piece(const stream_of *from, PyObject *piece)
{
    const plain_request *served = from->served;
    long long length = served->facts.length, sent = served->sent;

    return request_is_plain(from->self, served) && PyBytes_CheckExact(piece) &&
           served->has_head && PyBytes_GET_SIZE(piece) <= BODY_MAX &&
           (length < 0 || from->has_no_body ||
            PyBytes_GET_SIZE(piece) <= length - (sent > 0 ? sent : 0));
}

/* Send piece after piece.  Returns 1 when there are no more; 0: not plain any
 * more, `rest` is the part of it that was not sent. */
static int send_pieces(stream_of *from, PyObject **rest)
{
    for (unsigned long count = 1; !from->served->is_full; count++) {
        PyObject *piece = PyIter_Next(from->iterator);
        int sent = 1;

        if (count % PIECES_HELD == 0) { /* there may be no bytecode in it */
            Py_BEGIN_ALLOW_THREADS Py_END_ALLOW_THREADS
        }

        if (piece == NULL) {
            if (PyErr_Occurred())
                return 0;
            break;
        }
        if (!is_plain_piece(from, piece)) {
            *rest = piece;
            return 0;
        }
        if (PyBytes_GET_SIZE(piece) > 0)
            sent = send_piece(from, piece);
        Py_DECREF(piece);
        if (sent <= 0)
            return 0;
    }
    Py_CLEAR(from->iterator); /* may run the app */
    return 1;
}

/* Call close(), as PEP 3333 asks.  Returns -1 with an exception. */
static int close_iterable(PyObject *iterable)
{
    PyObject *closing, *done = NULL;

    if (PyTuple_CheckExact(iterable))
        return 0;
    closing = PyObject_GetAttr(iterable, s_close);
    if (closing == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError))
            return -1;
        PyErr_Clear();
        return 0;
    }
    if (closing != Py_None)
        done = PyObject_CallNoArgs(closing);
    Py_DECREF(closing);
    Py_XDECREF(done);
    return PyErr_Occurred() ? -1 : 0;
}

/* All is out, and the iterable is closed: let the connection have its next
 * request. */
static int end(stream_of *from)
{
    engine *self = from->self;
    plain_request *served = from->served;
    PyObject *addr = ends_addr(self, served), *left;
    int result;

    served->state = REQUEST_OVER;
    result = self->reply(self->set, served->arrival.fd, NULL, 0, NULL, 0,
                         served->keep_alive);
    if (result != LANE_UNSENT && result != LANE_HELD) {
        self->nplain++;
        ends_note(self, served, addr, (size_t)served->sent,
                  result == LANE_LOST);
        return 0;
    }
    Py_XDECREF(addr);
    served->state = REQUEST_RUNNING; /* the event loop closes */
    left = Py_BuildValue("y#n", "", (Py_ssize_t)0, (Py_ssize_t)served->sent);
    if (left == NULL)
        return -1;
    result = serve_go_on(self, served, "leave", left);
    Py_DECREF(left);
    return result;
}

int stream(engine *self, plain_request *served, PyObject *iterable,
           int has_no_body)
{
    stream_of from = {self, served, iterable, NULL, has_no_body};
    PyObject *rest = NULL;
    int result;

    from.iterator = PyObject_GetIter(iterable);
    if (from.iterator == NULL || !send_pieces(&from, &rest) ||
        !request_is_plain(self, served) || send_end(&from) <= 0)
        result = go_on_in_python(&from, rest, 0);
    else if (close_iterable(iterable) < 0 || !request_is_plain(self, served) ||
             ends_is_slow(self, served)) /* Python must report it */
        result = go_on_in_python(&from, NULL, 1);
    else
        result = end(&from);
    Py_XDECREF(rest);
    Py_XDECREF(from.iterator);
    return result;
}
