/* engine.c -- the engine, as Python sees it.  Long: tables, and small methods,
 * each of which can be read alone. */
#include "ends.h"
#include "seam.h"

#include <math.h>
#include <stddef.h>
#include <structmember.h>

static PyObject *work(PyObject *object, PyObject *unused)
{
    int result;

    (void)unused;
    if (((engine *)object)->peers == NULL) {
        PyErr_BadInternalCall();
        return NULL;
    }
    result = leader_work((engine *)object);
    return result < 0 ? NULL : PyBool_FromLong(result);
}

static PyObject *run(PyObject *object, PyObject *waiting)
{
    if (Py_TYPE(waiting) != &request_type ||
        ((plain_request *)waiting)->engine != (engine *)object ||
        ((plain_request *)waiting)->state != REQUEST_WAITING) {
        PyErr_BadArgument();
        return NULL;
    }
    Py_INCREF(waiting);
    if (serve((engine *)object, (plain_request *)waiting) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *submit(PyObject *object, PyObject *count)
{
    engine *self = (engine *)object;
    long many = PyLong_AsLong(count);

    if (self->peers == NULL || many < 0 ||
        many > (long)self->set->arrivals_cap) {
        PyErr_BadArgument();
        return NULL;
    }
    leader_submit(self, (uint32_t)many);
    Py_RETURN_NONE;
}

static PyObject *spill(PyObject *object, PyObject *unused)
{
    (void)unused;
    batch_spill((engine *)object, NULL);
    Py_RETURN_NONE;
}

/* Promote requests that have come before a moment; a list of all of them. */
static PyObject *promote_older(engine *self, double arrived_before,
                               int with_waiting)
{
    PyObject *found = PyList_New(0);

    for (plain_request *at = self->requests; found != NULL && at != NULL;
         at = at->next)
        if ((at->state == REQUEST_RUNNING || with_waiting) &&
            PyList_Append(found, (PyObject *)at) < 0)
            Py_CLEAR(found);
    for (Py_ssize_t i = 0; found != NULL && i < PyList_GET_SIZE(found); i++) {
        plain_request *each = (plain_request *)PyList_GET_ITEM(found, i);

        /* Python may run meanwhile. */
        if ((isinf(arrived_before) || each->arrived_at != 0.0) &&
            each->arrived_at <= arrived_before &&
            request_promote(each) == NULL && PyErr_Occurred())
            serve_report(self); /* the others have to be */
    }
    return found;
}

static PyObject *promote_all(PyObject *object, PyObject *unused)
{
    PyObject *found;

    (void)unused;
    batch_spill((engine *)object, NULL);
    found = promote_older((engine *)object, Py_HUGE_VAL, 1);
    if (found == NULL)
        return NULL;
    Py_DECREF(found);
    Py_RETURN_NONE;
}

static PyObject *running(PyObject *object, PyObject *arrived_before)
{
    double before = PyFloat_AsDouble(arrived_before);
    PyObject *found, *by_thread, *thread_id;

    if (before == -1.0 && PyErr_Occurred())
        return NULL;
    found = promote_older((engine *)object, before, 0);
    by_thread = found != NULL ? PyDict_New() : NULL;
    for (Py_ssize_t i = 0; by_thread != NULL && i < PyList_GET_SIZE(found);
         i++) {
        plain_request *each = (plain_request *)PyList_GET_ITEM(found, i);

        if (each->state != REQUEST_RUNNING || each->twin == NULL)
            continue;
        thread_id = PyLong_FromUnsignedLong(each->thread_id);
        if (thread_id == NULL ||
            PyDict_SetItem(by_thread, thread_id, each->twin) < 0)
            Py_CLEAR(by_thread);
        Py_XDECREF(thread_id);
    }
    Py_XDECREF(found);
    return by_thread;
}

static engine_peer *peer_at(engine *self, int fd)
{
    if (fd < 0 || (uint32_t)fd >= self->npeers) {
        PyErr_SetString(PyExc_ValueError, "no such descriptor");
        return NULL;
    }
    return &self->peers[fd];
}

static PyObject *know(PyObject *object, PyObject *args)
{
    engine_peer *peer;
    PyObject *addr, *port, *base;
    int fd;

    if (!PyArg_ParseTuple(args, "iUUO!", &fd, &addr, &port, &PyDict_Type,
                          &base) ||
        (peer = peer_at((engine *)object, fd)) == NULL)
        return NULL;
    Py_INCREF(addr);
    Py_INCREF(port);
    Py_INCREF(base);
    peer->belief = FORWARDED_UNASKED;
    Py_XSETREF(peer->addr, addr);
    Py_XSETREF(peer->port, port);
    Py_XSETREF(peer->base, base);
    peer->has_connection = 1;
    Py_RETURN_NONE;
}

static PyObject *peer_of(PyObject *object, PyObject *fd)
{
    engine_peer *peer;
    PyObject *addr, *port;
    int number;

    if (!PyArg_Parse(fd, "i", &number) ||
        (peer = peer_at((engine *)object, number)) == NULL)
        return NULL;
    addr = peer->addr, port = peer->port;
    if (addr == NULL || port == NULL)
        Py_RETURN_NONE;
    Py_INCREF(addr); /* another connection's may take their place */
    Py_INCREF(port);
    return Py_BuildValue("NN", addr, port);
}

static PyObject *get_waiting(PyObject *object, void *unused)
{
    unsigned long count = 0;

    (void)unused;
    for (batch *each = ((engine *)object)->batches; each != NULL;
         each = each->next)
        count += each->count - each->taken;
    return PyLong_FromUnsignedLong(count);
}

/* `at`: which of the two ends of a head. */
static PyObject **tail_at(PyObject *object, void *at)
{
    engine *self = (engine *)object;

    return at == NULL ? &self->tail : &self->tls_tail;
}

static PyObject *get_tail(PyObject *object, void *at)
{
    PyObject *tail = *tail_at(object, at);

    if (tail == NULL)
        Py_RETURN_NONE;
    Py_INCREF(tail);
    return tail;
}

static int set_tail(PyObject *object, PyObject *tail, void *at)
{
    if (tail == NULL || !PyBytes_CheckExact(tail) ||
        PyBytes_GET_SIZE(tail) > REQUEST_HEAD_CAP) {
        PyErr_SetString(PyExc_ValueError, "the fields are too long");
        return -1;
    }
    Py_INCREF(tail);
    Py_XSETREF(*tail_at(object, at), tail);
    return 0;
}

/* --- beginning and end ----------------------------------------------------- */

#define OF_ENGINE(name, kind)                                                 \
    {                                                                         \
#name, SEAM_##kind, offsetof(engine, name)                            \
    }
#define OF_SERVICE(name, kind)                                                \
    {                                                                         \
#name, SEAM_##kind, offsetof(engine_service, name)                    \
    }

static const seam_value engine_values[] = {
    OF_ENGINE(lane_bytes, COUNT),     OF_ENGINE(set, ADDRESS),
    OF_ENGINE(poll, ADDRESS),         OF_ENGINE(reply, ADDRESS),
    OF_ENGINE(wake, ADDRESS),         OF_ENGINE(parse_array, ADDRESS),
    OF_ENGINE(owner, OBJECT),         OF_ENGINE(executor, OBJECT),
    OF_ENGINE(connections, DICT),     OF_ENGINE(runs, OPTIONAL),
    OF_ENGINE(written_off, OBJECT),   OF_ENGINE(overdue, OBJECT),
    OF_ENGINE(send, ADDRESS),         OF_ENGINE(tls_tail, OBJECT),
    OF_ENGINE(forked, LIST),          OF_ENGINE(tail, OBJECT),
    OF_ENGINE(health_path, OPTIONAL), OF_ENGINE(new_input, OBJECT),
    OF_ENGINE(respond, OPTIONAL),     OF_ENGINE(takes_times, FLAG),
    OF_ENGINE(ends_parts, OPTIONAL),  OF_ENGINE(service_parts, LIST),
    OF_ENGINE(ended, OBJECT),         OF_ENGINE(state, OBJECT),
    OF_ENGINE(look, ADDRESS),         {NULL, SEAM_OBJECT, 0},
};
/* Of workers/executor.py. */
static const seam_value executor_values[] = {
    OF_ENGINE(jobs, OBJECT),         OF_ENGINE(leadership, LIST),
    OF_ENGINE(waiting_leader, LIST), OF_ENGINE(compensated, DICT),
    {NULL, SEAM_OBJECT, 0},
};
static const seam_value service_values[] = {
    OF_SERVICE(app, OPTIONAL),
    OF_SERVICE(base, DICT),
    OF_SERVICE(status_prefix, OBJECT),
    OF_SERVICE(is_front, FLAG),
    OF_SERVICE(removal, OPTIONAL),
    OF_SERVICE(drop, OPTIONAL),
    OF_SERVICE(is_trusting, FLAG),
    OF_SERVICE(id_field, OPTIONAL),
    {NULL, SEAM_OBJECT, 0},
};

static int take_service(engine_service *to, PyObject *from)
{
    if (seam_take(to, from, service_values) < 0)
        return -1;
    if (!text_octets(to->status_prefix, &to->prefix)) {
        PyErr_BadArgument();
        return -1;
    }
    if (to->is_trusting && (to->changes = PyDict_New()) == NULL)
        return -1;
    return 0;
}

/* `services`: a list of ServiceParts. */
static int take_services(engine *self, PyObject *services)
{
    Py_ssize_t count = PyList_GET_SIZE(services);

    self->services = PyMem_Calloc((size_t)count + 1, sizeof *self->services);
    if (self->services == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->nservices = count;
    for (Py_ssize_t i = 0; i < count; i++)
        if (take_service(&self->services[i], PyList_GET_ITEM(services, i)) < 0)
            return -1;
    return 0;
}

/* Engine(parts): connections/lane/seam.py, EngineParts. */
static int engine_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    engine *self = (engine *)object;
    PyObject *parts;

    (void)kwargs;
    if (self->peers != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the engine is made already");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "O", &parts) ||
        seam_take(self, parts, engine_values) < 0 ||
        seam_take(self, self->executor, executor_values) < 0 ||
        seam_check(&seam_ended, self->ended) < 0 ||
        seam_check(&seam_state, self->state) < 0 ||
        set_tail(object, self->tail, NULL) < 0 ||
        set_tail(object, self->tls_tail, object) < 0)
        return -1;
    if (self->lane_bytes != sizeof(lane)) {
        PyErr_SetString(PyExc_RuntimeError, "_cparsers is another version's");
        return -1;
    }
    self->nforks = PyList_GET_SIZE(self->forked);
    self->npeers = self->set->conns_cap;
    self->peers = PyMem_Calloc(self->npeers, sizeof *self->peers);
    self->run = PyObject_GetAttrString(object, "run");
    if (self->peers == NULL)
        PyErr_NoMemory();
    if (self->peers == NULL || self->run == NULL ||
        ends_take(&self->ends, self->ends_parts) < 0)
        return -1;
    return take_services(self, self->service_parts);
}

/* Requests are no objects of the collector's, as they hold nothing of the app
 * but in the middle of a call; but they hold this.  So an app that keeps
 * start_response for ever keeps an engine that has ended, too. */
static int traverse(PyObject *object, visitproc visit, void *arg)
{
    engine *self = (engine *)object;
    int result = seam_visit(self, engine_values, visit, arg);

    if (result == 0)
        result = seam_visit(self, executor_values, visit, arg);
    if (result == 0)
        result = ends_visit(&self->ends, visit, arg);
    for (Py_ssize_t i = 0; result == 0 && i < self->nservices; i++)
        result = seam_visit(&self->services[i], service_values, visit, arg);
    if (result == 0)
        Py_VISIT(self->run);
    return result;
}

static int clear(PyObject *object)
{
    engine *self = (engine *)object;

    seam_clear(self, engine_values);
    seam_clear(self, executor_values);
    ends_clear(&self->ends);
    for (Py_ssize_t i = 0; i < self->nservices; i++) {
        seam_clear(&self->services[i], service_values);
        Py_CLEAR(self->services[i].changes);
    }
    Py_CLEAR(self->run);
    return 0;
}

static void dealloc(PyObject *object)
{
    engine *self = (engine *)object;

    PyObject_GC_UnTrack(object);
    clear(object);
    while (self->nfree > 0)
        Py_DECREF(self->free[--self->nfree]);
    for (uint32_t fd = 0; self->peers != NULL && fd < self->npeers; fd++) {
        Py_XDECREF(self->peers[fd].addr);
        Py_XDECREF(self->peers[fd].port);
        Py_XDECREF(self->peers[fd].base);
    }
    PyMem_Free(self->peers);
    PyMem_Free(self->services);
    ends_free(&self->ends);
    environ_clear(&self->environs);
    Py_TYPE(object)->tp_free(object);
}

static PyObject *take_counts(PyObject *object, PyObject *unused)
{
    counts *counted = ((engine *)object)->ends.counted;

    (void)unused;
    if (counted == NULL)
        return Py_BuildValue("[]d", 0.0);
    return counts_take(counted);
}

static PyObject *put_ends(PyObject *object, PyObject *unused)
{
    (void)unused;
    if (ends_put(&((engine *)object)->ends) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *get_ends_waiting(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromSsize_t(ends_count(&((engine *)object)->ends));
}

static PyMethodDef methods[] = {
    {"put_ends", put_ends, METH_NOARGS, NULL},
    {"take_counts", take_counts, METH_NOARGS, NULL},
    {"work", work, METH_NOARGS, NULL},
    {"run", run, METH_O, NULL},
    {"submit", submit, METH_O, NULL},
    {"spill", spill, METH_NOARGS, NULL},
    {"promote_all", promote_all, METH_NOARGS, NULL},
    {"running", running, METH_O, NULL},
    {"know", know, METH_VARARGS, NULL},
    {"peer_of", peer_of, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"progress", T_ULONGLONG, offsetof(engine, progress), READONLY, NULL},
    {"plain_count", T_ULONGLONG, offsetof(engine, nplain), READONLY, NULL},
    {"promoted_count", T_ULONGLONG, offsetof(engine, npromoted), READONLY,
     NULL},
    {"is_draining", T_BOOL, offsetof(engine, is_draining), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef getset[] = {
    {"waiting", get_waiting, NULL, NULL, NULL},
    {"ends_waiting", get_ends_waiting, NULL, NULL, NULL},
    {"tail", get_tail, set_tail, NULL, NULL},
    {"tls_tail", get_tail, set_tail, NULL, "tls"},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject engine_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "aserve._native.Engine",
    .tp_basicsize = sizeof(engine),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_init = engine_init,
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_dealloc = dealloc,
    .tp_methods = methods,
    .tp_members = members,
    .tp_getset = getset,
};
