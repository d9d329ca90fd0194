/* batch.c -- a worker's requests from the lane: which of them are plain. */
#include "call.h"

#include <string.h>

enum {
    PLAIN_FLAGS = HTTP1_KEEP_ALIVE | HTTP1_VERSION_1_1 | HTTP1_HEAD |
                  HTTP1_LENGTH | HTTP1_FORWARDED | HTTP1_DROPPED
};

/* Whether a line that is logged once was logged; until then the twin logs it. */
static int is_said(PyObject **line)
{
    PyObject *value;

    if (*line == NULL || *line == Py_True)
        return *line != NULL;
    value = PyObject_GetAttrString(*line, "is_said");
    if (value == Py_True)
        Py_XSETREF(*line, value);
    else
        Py_XDECREF(value);
    PyErr_Clear();
    return *line == Py_True;
}

/* Whether it is known what becomes of a proxy's fields: the app sees them as
 * they came, or they count; if not, no app sees them. */
static int is_told(engine *self, const lane_arrival *arrival)
{
    engine_service *service = &self->services[arrival->listener];
    int is_believed = 0;

    if (service->removal == Py_False)
        return 1;
    if (service->changes != NULL)
        is_believed = forwarded_is_believed(self, arrival);
    if (is_believed < 0)
        serve_report(self);
    return is_believed > 0 || (is_believed == 0 && is_said(&service->removal));
}

/* Whether C can handle a request with these flags of HTTP's parser. */
static int are_plain(engine *self, const lane_arrival *arrival)
{
    engine_service *service = &self->services[arrival->listener];
    uint32_t flags = arrival->flags;

    if ((flags & HTTP1_FORWARDED) != 0 && !is_told(self, arrival))
        return 0;
    if ((flags & HTTP1_DROPPED) != 0 && !is_said(&service->drop))
        return 0;
    return (flags & HTTP1_VERSION_1_1) != 0 &&
           (flags & ~(uint32_t)PLAIN_FLAGS) == 0;
}

/* Whether C understands all of a request. */
static int is_plain(engine *self, const lane_arrival *arrival,
                    const char *vars)
{
    const engine_service *service = &self->services[arrival->listener];

    if (service->app == NULL || arrival->kind != LANE_WHOLE ||
        self->peers[arrival->fd].addr == NULL)
        return 0;
    if (service->is_front) {
        if (arrival->modifier1 == UWSGI_RPC)
            return call_is_plain(self, arrival);
        if (arrival->modifier1 != 0 || arrival->vars_len == 0)
            return 0; /* a ping, a mount, a mistake */
    } else if (!are_plain(self, arrival)) {
        return 0;
    }
    return self->health_path == NULL ||
           memmem(vars + arrival->vars_off, arrival->vars_len,
                  PyBytes_AS_STRING(self->health_path),
                  (size_t)PyBytes_GET_SIZE(self->health_path)) == NULL;
}

/* A connection's first request has the client's address: address NUL port. */
static void begin_peer(engine *self, const lane_arrival *arrival,
                       const char *vars)
{
    engine_peer *peer = &self->peers[arrival->fd];
    const char *at = vars + arrival->peer_off, *end = at + arrival->peer_len;
    octets addr = text_next(&at, end), port = text_next(&at, end);

    peer->belief = FORWARDED_UNASKED;
    Py_CLEAR(peer->addr); /* of the one that had this number before */
    Py_CLEAR(peer->port);
    Py_CLEAR(peer->base);
    if (peer->has_connection) {
        PyObject *done =
            PyObject_CallMethod(self->owner, "forget", "i", arrival->fd);

        peer->has_connection = 0;
        if (done == NULL)
            serve_report(self);
        Py_XDECREF(done);
    }
    peer->port = text_of(port.at, port.size);
    if (peer->port != NULL)
        peer->addr = text_of(addr.at, addr.size);
    PyErr_Clear(); /* without an address nothing is plain */
}

/* A stream has the client of its carrier. */
static void begin_stream(engine *self, const lane_arrival *arrival)
{
    engine_peer *peer = &self->peers[arrival->fd];
    const engine_peer *of = &self->peers[arrival->carrier];

    peer->belief = of->belief;
    if (peer->addr == of->addr && peer->port == of->port &&
        peer->base == of->base)
        return;
    Py_XINCREF(of->addr);
    Py_XINCREF(of->port);
    Py_XINCREF(of->base);
    Py_XSETREF(peer->addr, of->addr);
    Py_XSETREF(peer->port, of->port);
    Py_XSETREF(peer->base, of->base);
}

/* Python looks for a Connection, which it has not made for plain requests. */
static void add_connection(engine *self, const lane_arrival *arrival)
{
    engine_peer *peer = &self->peers[arrival->fd];
    PyObject *made;

    if (arrival->is_first || arrival->carrier != 0) {
        peer->has_connection = 1; /* it makes one of its own */
        return;
    }
    if (peer->has_connection || peer->addr == NULL)
        return;
    made = PyObject_CallMethod(self->owner, "connection_of", "iI", arrival->fd,
                               arrival->listener);
    peer->has_connection = made != NULL;
    if (made == NULL)
        serve_report(self);
    Py_XDECREF(made);
}

static batch *new_batch(const lane *set, uint32_t count)
{
    size_t arrivals = count * sizeof(lane_arrival);
    size_t bodies = count * sizeof(PyObject *);
    batch *made =
        PyMem_Malloc(sizeof(batch) + arrivals + bodies + set->vars_len);

    if (made == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    made->next = NULL;
    made->count = made->taken = 0;
    made->users = 1;
    made->arrived_at = 0.0;
    made->arrivals = (lane_arrival *)(made + 1);
    made->bodies = (PyObject **)(made->arrivals + count);
    made->vars = (char *)(made->bodies + count);
    memcpy(made->vars, set->vars, set->vars_len);
    return made;
}

/* The octets to keep besides vars: a body, or the packet of a
 * call. */
static octets body_of(const lane *set, const lane_arrival *arrival)
{
    const char *read = set->input + arrival->input_off;

    if (arrival->modifier1 == UWSGI_RPC)
        return (octets){read, (size_t)arrival->consumed};
    return (octets){read + arrival->consumed, arrival->content_length};
}

/* Put an arrival into a batch, if it is plain. */
static int add_plain(engine *self, batch *to, const lane_arrival *arrival)
{
    lane *set = self->set;
    octets read = body_of(set, arrival);
    PyObject *body = NULL;

    if (to == NULL || !is_plain(self, arrival, set->vars))
        return 0;
    if (read.size > 0) {
        body = PyBytes_FromStringAndSize(read.at, (Py_ssize_t)read.size);
        if (body == NULL) {
            PyErr_Clear();
            return 0;
        }
    }
    to->bodies[to->count] = body;
    to->arrivals[to->count] = *arrival;
    if (self->services[arrival->listener].removal == Py_False)
        to->arrivals[to->count].flags &= ~(uint32_t)HTTP1_FORWARDED;
    to->count++;
    return 1;
}

batch *batch_take(engine *self, uint32_t count, uint32_t *nothers)
{
    lane *set = self->set;
    batch *made = new_batch(set, count);
    lane_arrival *arrivals = set->arrivals;

    *nothers = 0;
    if (made == NULL)
        serve_report(self); /* nothing is plain, then */
    else if (self->takes_times)
        made->arrived_at = serve_now();
    for (uint32_t i = 0; i < count; i++) {
        const lane_arrival *arrival = &arrivals[i];

        if ((uint32_t)arrival->fd < self->npeers) { /* else it has left */
            if (arrival->is_first && arrival->kind != LANE_LEFT)
                begin_peer(self, arrival, set->vars);
            if (arrival->carrier != 0 && arrival->kind != LANE_LEFT)
                begin_stream(self, arrival);
            if (add_plain(self, made, arrival))
                continue;
            add_connection(self, arrival);
        }
        arrivals[(*nothers)++] = *arrival;
    }
    return made;
}

int batch_is_waiting(const engine *self)
{
    for (const batch *each = self->batches; each != NULL; each = each->next)
        if (each->taken < each->count)
            return 1;
    return 0;
}

static plain_request *begin(engine *self, batch *from, uint32_t i)
{
    const lane_arrival *arrival = &from->arrivals[i];
    plain_request *made =
        request_new(self, arrival, from->vars + arrival->vars_off,
                    from->bodies[i], from->arrived_at);

    Py_CLEAR(from->bodies[i]);
    if (made != NULL)
        made->keep_alive = (arrival->flags & HTTP1_KEEP_ALIVE) != 0 &&
                           !self->services[arrival->listener].is_front;
    return made;
}

plain_request *batch_next(engine *self, batch *from)
{
    return begin(self, from, from->taken++);
}

void batch_add(engine *self, batch *added)
{
    added->next = self->batches;
    self->batches = added;
}

void batch_free(engine *self, batch *freed)
{
    batch **at = &self->batches;

    if (--freed->users > 0)
        return;
    while (*at != NULL && *at != freed)
        at = &(*at)->next;
    if (*at != NULL)
        *at = freed->next;
    PyMem_Free(freed);
}

static int add_job(engine *self, batch *from, uint32_t i)
{
    plain_request *waiting = begin(self, from, i);
    PyObject *job = NULL, *done = NULL;

    if (waiting != NULL && request_keep_vars(waiting) == 0)
        job = PyTuple_Pack(2, self->run, waiting);
    Py_XDECREF(waiting);
    if (job != NULL)
        done = PyObject_CallMethod(self->jobs, "append", "(O)", job);
    Py_XDECREF(job);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Make jobs of a batch from its i-th request on. */
static void spill(engine *self, batch *spilled, uint32_t from)
{
    uint32_t count = spilled->count;

    spilled->count = from;
    for (; from < count; from++)
        if (add_job(self, spilled, from) < 0)
            serve_lose(self, spilled->arrivals[from].fd, NULL);
}

void batch_spill(engine *self, batch *begun)
{
    batch *each;
    uint32_t from;

    /* To make an object may run the collector, and other threads: the list
     * may change.  (Hardly ever there are two batches: then the last to come
     * is the first of the queue.) */
    for (;;) {
        for (each = self->batches; each != NULL; each = each->next) {
            from = each->taken + (each == begun);
            if (from < each->count)
                break;
        }
        if (each == NULL)
            return;
        each->users++;
        spill(self, each, from);
        batch_free(self, each);
    }
}
