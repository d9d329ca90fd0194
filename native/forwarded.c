/* forwarded.c -- the entries of the environ that a trusted proxy's claims change.
 *
 * They depend only on these claims, Host and the listener.  Python makes them,
 * and they are kept: most clients send more than one request. */
#include "engine.h"

/* Of one listener.  Guess: 2 MiB in all, at most. */
enum { CHANGES_MAX = 1024 };

int forwarded_is_believed(engine *self, const lane_arrival *arrival)
{
    engine_peer *peer = &self->peers[arrival->fd];
    PyObject *answer;

    if (peer->belief == FORWARDED_UNASKED) {
        answer = PyObject_CallMethod(self->owner, "believes", "IO",
                                     arrival->listener, peer->addr);
        if (answer == NULL)
            return -1;
        peer->belief =
            answer == Py_True ? FORWARDED_BELIEVED : FORWARDED_UNBELIEVED;
        Py_DECREF(answer);
    }
    return peer->belief == FORWARDED_BELIEVED;
}

/* Ask Python, and keep the answer. */
static PyObject *find_changes(engine *self, const plain_request *served,
                              PyObject *all, PyObject *words)
{
    const lane_arrival *arrival = &served->arrival;
    PyObject *found = PyObject_CallMethod(
        self->owner, "changes", "Iy#II", arrival->listener, served->vars,
        (Py_ssize_t)arrival->vars_len, arrival->nfirst, arrival->flags);

    if (found == NULL)
        return NULL;
    if (!PyDict_CheckExact(found)) {
        Py_DECREF(found);
        return NULL;
    }
    if (PyDict_GET_SIZE(all) >= CHANGES_MAX)
        PyDict_Clear(all); /* the ones in use are added again */
    if (PyDict_SetItem(all, words, found) < 0)
        Py_CLEAR(found);
    return found;
}

PyObject *forwarded_changes(engine *self, const plain_request *served,
                            const taken_vars *taken)
{
    PyObject *all = self->services[served->arrival.listener].changes;
    PyObject *words, *found;

    if (taken->words_size > TAKEN_WORDS_MAX)
        return NULL;
    words =
        PyBytes_FromStringAndSize(taken->words, (Py_ssize_t)taken->words_size);
    if (words == NULL)
        return NULL;
    found = PyDict_GetItemWithError(all, words);
    if (found != NULL)
        Py_INCREF(found);
    else if (!PyErr_Occurred())
        found = find_changes(self, served, all, words);
    Py_DECREF(words);
    return found;
}
