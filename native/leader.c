/* leader.c -- wait for requests, and serve them one after another. */
#include "engine.h"

#include <time.h>

/* Measured 2026-11-26 on one CPU: two clients ask for a view that computes 20 ms,
 * four for hello; three runs each.  With this, hello is answered 21,677 to
 * 32,965 times a second, without it 926 to 8,518 times; the requests that
 * compute are as many. */
#define LOOK_SECONDS 60e-6

static PyObject *s_is_stopping, *s_app_blocks;

int leader_init(void)
{
    s_is_stopping = PyUnicode_InternFromString("is_stopping");
    s_app_blocks = PyUnicode_InternFromString("app_blocks");
    return s_is_stopping != NULL && s_app_blocks != NULL ? 0 : -1;
}

/* An attribute of the executor's that is True or False; False, too, where it
 * cannot be read. */
static int flag(engine *self, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(self->executor, name);
    int is_set = value == Py_True;

    if (value == NULL)
        serve_report(self);
    Py_XDECREF(value);
    return is_set;
}

/* Look for requests without letting go of the GIL, for LOOK_SECONDS at most. */
static int look(engine *self)
{
    double until = serve_now() + LOOK_SECONDS;
    int count;

    do
        count = self->look(self->set);
    while (count == 0 && serve_now() < until);
    return count;
}

static uint32_t wait_for_arrivals(engine *self)
{
    int count = 0;

    /* A request that computes in another thread takes the GIL for its whole
     * switch interval when this one lets go of it: longer than most clients
     * need to ask again. */
    if (self->set->is_shake_due || self->set->is_body_due)
        ; /* without the GIL */
    else if (self->requests != NULL && !flag(self, s_app_blocks))
        count = look(self);
    /* Where many come, the next are there already: no other thread need get
     * the GIL in between. */
    else if (self->last_count > 1)
        count = self->look(self->set);
    if (count == 0) {
        Py_BEGIN_ALLOW_THREADS count = self->poll(self->set, -1);
        Py_END_ALLOW_THREADS
    }
    self->last_count = (uint32_t)count;
    return (uint32_t)count;
}

/* Submit the arrivals of the last poll that are not plain.  If that raises an
 * exception, it has taken none of them. */
static void submit_others(engine *self, uint32_t nothers)
{
    PyObject *done;

    if (nothers == 0)
        return;
    done = PyObject_CallMethod(self->owner, "submit", "I", nothers);
    if (done == NULL) {
        serve_report(self);
        done = PyObject_CallMethod(self->owner, "lose_arrivals", "I", nothers);
    }
    if (done == NULL)
        serve_report(self);
    Py_XDECREF(done);
}

/* The app blocks: let another worker lead, and have the rest of the batch. */
static void wake_another(engine *self, batch *taken)
{
    PyObject *done;

    batch_spill(self, taken);
    done = PyObject_CallMethod(self->executor, "on_batch", NULL);
    if (done == NULL)
        serve_report(self);
    Py_XDECREF(done);
}

/* Wait for requests, with the token; put them into a batch. */
static int take(engine *self, batch **taken)
{
    uint32_t count = 0, nothers;
    int is_stopping;

    if (PyList_Append(self->waiting_leader, Py_None) < 0)
        return -1;
    while (!(is_stopping = flag(self, s_is_stopping)) && count == 0 &&
           PyObject_Size(self->jobs) == 0) {
        if (PyObject_Size(self->overdue) > 0)
            Py_XDECREF(
                PyObject_CallMethod(self->owner, "refuse_overdue", NULL));
        if (PyErr_Occurred())
            serve_report(self);
        count = wait_for_arrivals(self);
    }
    if (PyErr_Occurred())
        serve_report(self);
    if (count == 0 && !is_stopping) { /* it gives up the token for a job of
                                       * the loop's: start the stall timer */
        self->wake(self->set);
        count = (uint32_t)self->look(self->set);
    }
    PyList_SetSlice(self->waiting_leader, 0, PY_SSIZE_T_MAX, NULL);
    self->progress++;
    *taken = batch_take(self, count, &nothers);
    if (*taken != NULL)
        batch_add(self, *taken);
    submit_others(self, nothers);
    return 0;
}

/* Without it no worker would ever lead again: where there is no memory for the
 * list, try until there is. */
static void put_back(engine *self, PyObject *token)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    while (PyList_Append(self->leadership, token) < 0) {
        PyErr_Clear();
        Py_BEGIN_ALLOW_THREADS nanosleep(&pause, NULL);
        Py_END_ALLOW_THREADS
    }
}

/* Take the token, wait, and put it back.  Returns 0: another worker has it. */
static int lead(engine *self, batch **taken)
{
    Py_ssize_t size = PyList_GET_SIZE(self->leadership);
    PyObject *token;

    if (size == 0)
        return 0;
    token = PyList_GET_ITEM(self->leadership, size - 1);
    Py_INCREF(token);
    PyList_SetSlice(self->leadership, size - 1, size, NULL);
    if (take(self, taken) < 0)
        serve_report(self);
    if (!flag(self, s_is_stopping))
        put_back(self, token);
    Py_DECREF(token);
    return 1;
}

/* Serve a request in a context of its own (PEP 567), as a new thread has. */
static int serve_in_context(engine *self, plain_request *served)
{
    PyObject *context = PyContext_New(), *type, *value, *traceback;
    int result;

    if (context == NULL || PyContext_Enter(context) < 0) {
        Py_XDECREF(context);
        serve_lose(self, served->arrival.fd, served);
        request_end(served);
        return 0;
    }
    result = serve(self, served);
    /* Also after an exception that ends the worker: from 3.14 on, the thread
     * leaves a context of its own. */
    PyErr_Fetch(&type, &value, &traceback);
    if (PyContext_Exit(context) < 0)
        serve_report(self);
    PyErr_Restore(type, value, traceback);
    Py_DECREF(context);
    return result;
}

/* Serve the rest of a batch, begun by no worker.  Returns 1: the executor has to
 * check whether this worker still has its slot.  Finalizers of the app may
 * fork, also behind a response: in a child the next job ends it (core/forks.py). */
static int serve_batch(engine *self, batch *from)
{
    PyObject *type, *value, *traceback;
    int result = 0, is_elsewhere = 0;

    while (from->taken < from->count && result >= 0 && !is_elsewhere &&
           !engine_is_child(self)) {
        plain_request *next = batch_next(self, from);

        self->progress++;
        if (next == NULL) {
            serve_lose(self, from->arrivals[from->taken - 1].fd, NULL);
            continue;
        }
        result = serve_in_context(self, next);
        is_elsewhere = result == 1 && PyDict_GET_SIZE(self->compensated) > 0;
    }
    PyErr_Fetch(&type, &value, &traceback);
    if (from->taken < from->count)
        batch_spill(self, NULL);
    batch_free(self, from);
    PyErr_Restore(type, value, traceback);
    return result < 0 ? -1 : is_elsewhere;
}

int leader_work(engine *self)
{
    for (;;) {
        batch *taken = NULL;
        int result;

        if (batch_is_waiting(self)) { /* of a worker that is inside the app */
            batch_spill(self, NULL);
            return 1;
        }
        if (!lead(self, &taken))
            return 0;
        if (taken != NULL) {
            if (taken->count > 0 && flag(self, s_app_blocks))
                wake_another(self, taken);
            result = serve_batch(self, taken);
            if (result != 0)
                return result;
        }
        if (PyObject_Size(self->jobs) > 0 || flag(self, s_is_stopping))
            return 1;
    }
}

void leader_submit(engine *self, uint32_t count)
{
    uint32_t nothers;
    batch *taken = batch_take(self, count, &nothers);

    submit_others(self, nothers);
    if (taken != NULL) {
        batch_add(self, taken);
        batch_spill(self, NULL);
        batch_free(self, taken);
    }
}
