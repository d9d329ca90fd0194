/* seam.c -- see seam.h. */
#include "seam.h"

#include <string.h>

static PyObject **object_at(void *in, const seam_value *value)
{
    return (PyObject **)(void *)((char *)in + value->offset);
}

static int is_object(seam_kind kind)
{
    return kind <= SEAM_DICT;
}

static int wrong_type(const seam_value *value, const char *wanted,
                      PyObject *found)
{
    PyErr_Format(PyExc_TypeError, "%s must be a %s, not %s", value->name,
                 wanted, Py_TYPE(found)->tp_name);
    return -1;
}

static int keep_object(void *to, const seam_value *value, PyObject *found)
{
    if (value->kind == SEAM_LIST && !PyList_Check(found))
        return wrong_type(value, "list", found);
    if (value->kind == SEAM_DICT && !PyDict_Check(found))
        return wrong_type(value, "dict", found);
    if (value->kind == SEAM_OPTIONAL && found == Py_None)
        return 0;
    Py_INCREF(found);
    Py_XSETREF(*object_at(to, value), found);
    return 0;
}

static int keep_number(void *to, const seam_value *value, PyObject *found)
{
    char *at = (char *)to + value->offset;

    if (value->kind == SEAM_FLAG) {
        int is_true = PyObject_IsTrue(found);

        memcpy(at, &is_true, sizeof is_true);
    } else if (value->kind == SEAM_COUNT) {
        Py_ssize_t count = PyLong_AsSsize_t(found);

        memcpy(at, &count, sizeof count);
    } else if (value->kind == SEAM_SECONDS) {
        double seconds = PyFloat_AsDouble(found);

        memcpy(at, &seconds, sizeof seconds);
    } else {
        void *address = PyLong_AsVoidPtr(found);

        memcpy(at, &address, sizeof address);
    }
    return PyErr_Occurred() ? -1 : 0;
}

int seam_take(void *to, PyObject *from, const seam_value *values)
{
    int result = 0;

    for (; result == 0 && values->name != NULL; values++) {
        PyObject *found = PyObject_GetAttrString(from, values->name);

        if (found == NULL)
            return -1;
        result = is_object(values->kind) ? keep_object(to, values, found)
                                         : keep_number(to, values, found);
        Py_DECREF(found);
    }
    return result;
}

int seam_visit(void *in, const seam_value *values, visitproc visit, void *arg)
{
    for (; values->name != NULL; values++)
        if (is_object(values->kind))
            Py_VISIT(*object_at(in, values));
    return 0;
}

void seam_clear(void *in, const seam_value *values)
{
    for (; values->name != NULL; values++)
        if (is_object(values->kind))
            Py_CLEAR(*object_at(in, values));
}

#define SEAM_NAME(of, name) #name,
static const char *const ended_names[] = {ENDED(SEAM_NAME)};
static const char *const state_names[] = {STATE(SEAM_NAME)};
const seam_tuple seam_ended = {ended_names, ENDED_COUNT};
const seam_tuple seam_state = {state_names, STATE_COUNT};

int seam_check(const seam_tuple *of, PyObject *type)
{
    PyObject *fields = PyObject_GetAttrString(type, "_fields");
    int is_same = fields != NULL && PyTuple_Check(fields) &&
                  PyTuple_GET_SIZE(fields) == of->count;

    for (Py_ssize_t i = 0; is_same && i < of->count; i++)
        is_same = PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(fields, i),
                                                   of->names[i]) == 0;
    Py_XDECREF(fields);
    if (!is_same && !PyErr_Occurred())
        PyErr_Format(PyExc_RuntimeError, "%R has other fields than C makes",
                     type);
    return is_same ? 0 : -1;
}

PyObject *seam_new(const seam_tuple *of, PyObject *type,
                   PyObject *const *items)
{
    PyObject *values = PyTuple_New(of->count), *args, *made = NULL;
    int is_whole = values != NULL;

    for (Py_ssize_t i = 0; i < of->count; i++) {
        is_whole = is_whole && items[i] != NULL;
        if (values != NULL)
            PyTuple_SET_ITEM(values, i, items[i]);
        else
            Py_XDECREF(items[i]);
    }
    args = is_whole ? PyTuple_Pack(1, values) : NULL;
    if (args != NULL)
        made = PyTuple_Type.tp_new((PyTypeObject *)type, args, NULL);
    Py_XDECREF(args);
    Py_XDECREF(values);
    return made;
}
