/* request_id.c -- a name for each request. */
#include "engine.h"

#if defined(__linux__)
#include <sys/random.h>
#endif

enum { TOLD_MAX = 128 }; /* octets; a longer name is not in the response */

static PyObject *s_request_id;

int request_id_init(void)
{
    s_request_id = PyUnicode_InternFromString("HTTP_X_REQUEST_ID");
    return s_request_id != NULL ? 0 : -1;
}

/* Returns 0: there are none. */
static int draw(request_id_pool *pool)
{
#if defined(__linux__)
    /* So few are all there, or none: getrandom(2). */
    if (getrandom(pool->octets, REQUEST_ID_POOL, 0) == REQUEST_ID_POOL)
        pool->left = REQUEST_ID_POOL;
#endif
    return pool->left > 0;
}

/* As long and as random as a trace id of OpenTelemetry.  Returns 0: not plain;
 * a process that the app has forked has a copy of the pool, and no use for it. */
static int make(engine *self, plain_request *served)
{
    static const char digits[] = "0123456789abcdef";
    request_id_pool *pool = &self->ids;
    const unsigned char *from;

    if (engine_is_child(self) || (pool->left == 0 && !draw(pool)))
        return 0;
    pool->left -= REQUEST_ID_OCTETS;
    from = pool->octets + pool->left;
    for (int i = 0; i < REQUEST_ID_OCTETS; i++) {
        served->made_id[2 * i] = digits[from[i] >> 4];
        served->made_id[2 * i + 1] = digits[from[i] & 15];
    }
    served->made_id_size = 2 * REQUEST_ID_OCTETS;
    return 1;
}

/* Whether a response may have it: no line ends, no invisible characters. */
static int is_tellable(octets id)
{
    if (id.size == 0 || id.size > TOLD_MAX)
        return 0;
    for (size_t i = 0; i < id.size; i++)
        if (id.at[i] < '!' || id.at[i] > '~')
            return 0;
    return 1;
}

int request_id_set(engine *self, plain_request *served, octets id,
                   PyObject *env)
{
    int is_made = id.at == NULL, result = -1;
    PyObject *text;

    if (is_made) {
        if (!make(self, served))
            return 0;
        id = (octets){served->made_id, served->made_id_size};
    }
    text = text_of(id.at, id.size);
    if (text != NULL)
        result = PyDict_SetItem(env, s_request_id, text) < 0 ? -1 : 1;
    Py_XDECREF(text);
    if (is_made || is_tellable(id))
        served->told_id = id;
    return result;
}
