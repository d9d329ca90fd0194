/* forwarded.c -- the fields in which proxies describe their client.
 *
 * What believed words change depends on nothing but themselves, Host and the
 * listener.  Python works it out, and it is kept: most clients ask more than
 * once. */
#include "engine.h"

/* Of one listener.  Guess: 2 MiB in all, at most. */
enum { CHANGES_MAX = 1024 };

/* RFC 7239, and what has no specification, but X-Forwarded- in its name. */
static int is_forwarded(octets name)
{
    return begins_with(name, OCTETS("HTTP_X_FORWARDED")) ||
           is_equal(name, OCTETS("HTTP_FORWARDED")) ||
           is_equal(name, OCTETS("HTTP_X_REAL_IP"));
}

static void keep(forwarded_rest *rest, const char *from, const char *to)
{
    memcpy(rest->octets + rest->size, from, (size_t)(to - from));
    rest->size += (size_t)(to - from);
}

static void put_aside(forwarded_rest *rest, octets part)
{
    if (rest->words_size + part.size < FORWARDED_WORDS_MAX) {
        memcpy(rest->words + rest->words_size, part.at, part.size);
        rest->words[rest->words_size + part.size] = '\0';
    }
    rest->words_size += part.size + 1;
}

int forwarded_remove(octets vars, uint32_t nfirst, forwarded_rest *rest)
{
    const char *at = vars.at, *end = at + vars.size, *kept = at, *pair;
    octets name, value;

    rest->size = rest->words_size = 0;
    if (vars.size > FORWARDED_VARS_MAX)
        return 0;
    for (uint32_t i = 0; at < end; i++) {
        int is_taken;

        pair = at;
        if (!text_pair(&at, end, &name, &value))
            return 0;
        is_taken = i >= nfirst && is_forwarded(name);
        if (is_taken || is_equal(name, OCTETS("HTTP_HOST"))) {
            put_aside(rest, name);
            put_aside(rest, value);
        }
        if (is_taken) {
            keep(rest, kept, pair);
            kept = at;
        }
    }
    keep(rest, kept, end);
    if (kept == end && rest->size > 0)
        rest->size--; /* the NUL before the pair that was the last */
    return 1;
}

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
        PyDict_Clear(all); /* those who go on are added again */
    if (PyDict_SetItem(all, words, found) < 0)
        Py_CLEAR(found);
    return found;
}

PyObject *forwarded_changes(engine *self, const plain_request *served,
                            const forwarded_rest *rest)
{
    PyObject *all = self->services[served->arrival.listener].changes;
    PyObject *words, *found;

    if (rest->words_size > FORWARDED_WORDS_MAX)
        return NULL;
    words =
        PyBytes_FromStringAndSize(rest->words, (Py_ssize_t)rest->words_size);
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
