/* seam.h -- the values that pass between Python and C: each by its name.
 *
 * C takes the attributes of an object of Python's into a structure, by a table
 * of names.  The objects: aserve/connections/lane/seam.py, and classes that
 * say so beside the attribute. */
#ifndef NATIVE_SEAM_H
#define NATIVE_SEAM_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>
#include <stdint.h>

/* What the attribute is, and what the member of the structure is. */
typedef enum {
    SEAM_OBJECT,   /* any: PyObject *, a reference of its own */
    SEAM_OPTIONAL, /* any; None: NULL */
    SEAM_LIST,     /* list: PyObject * */
    SEAM_DICT,     /* dict: PyObject * */
    SEAM_FLAG,     /* any: int, its truth */
    SEAM_COUNT,    /* int: Py_ssize_t */
    SEAM_SECONDS,  /* float: double */
    SEAM_ADDRESS   /* int: a pointer, to data or to a function */
} seam_kind;

typedef struct {
    const char *name; /* NULL: the end of a table */
    seam_kind kind;
    size_t offset;
} seam_value;

/* Take the attributes that a table names into the structure `to`.  Returns -1
 * with an exception; what was taken so far stays there, for the structure's
 * end. */
int seam_take(void *to, PyObject *from, const seam_value *values);

/* Visit, or let go of, the objects that seam_take has put there. */
int seam_visit(void *in, const seam_value *values, visitproc visit, void *arg);
void seam_clear(void *in, const seam_value *values);

/* The named tuples of Python's that C makes: Ended of core/ends.py, PlainState
 * of connections/lane/seam.py.  Their fields, in the order of the class: other
 * fields there are a RuntimeError at the start. */
#define ENDED(X)                                                              \
    X(ENDED, vars)                                                            \
    X(ENDED, is_from_front)                                                   \
    X(ENDED, addr)                                                            \
    X(ENDED, status)                                                          \
    X(ENDED, size)                                                            \
    X(ENDED, end)                                                             \
    X(ENDED, arrived_at)                                                      \
    X(ENDED, began_at)                                                        \
    X(ENDED, left_at)                                                         \
    X(ENDED, ended_at)                                                        \
    X(ENDED, thread_id)                                                       \
    X(ENDED, has_app_failed)                                                  \
    X(ENDED, head)
#define STATE(X)                                                              \
    X(STATE, fd)                                                              \
    X(STATE, listener)                                                        \
    X(STATE, vars)                                                            \
    X(STATE, own_count)                                                       \
    X(STATE, flags)                                                           \
    X(STATE, modifier1)                                                       \
    X(STATE, body)                                                            \
    X(STATE, arrived_at)                                                      \
    X(STATE, began_at)                                                        \
    X(STATE, thread_id)                                                       \
    X(STATE, keep_alive)                                                      \
    X(STATE, is_begun)                                                        \
    X(STATE, is_inside)                                                       \
    X(STATE, head)                                                            \
    X(STATE, code)                                                            \
    X(STATE, length)                                                          \
    X(STATE, sent_bytes)                                                      \
    X(STATE, is_full)                                                         \
    X(STATE, unsent)                                                          \
    X(STATE, made_id)

#define SEAM_INDEX(of, name) of##_##name,
enum { ENDED(SEAM_INDEX) ENDED_COUNT };
enum { STATE(SEAM_INDEX) STATE_COUNT };

typedef struct {
    const char *const *names; /* as in the class */
    Py_ssize_t count;
} seam_tuple;

extern const seam_tuple seam_ended, seam_state;

/* Whether a class has these fields: 0, or -1 with an exception. */
int seam_check(const seam_tuple *of, PyObject *type);

/* A tuple of the class; takes the items, of which NULL could not be made.
 * NULL: with an exception. */
PyObject *seam_new(const seam_tuple *of, PyObject *type,
                   PyObject *const *items);

#endif
