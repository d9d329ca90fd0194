/* module.c -- aserve._native: what Python sees. */
#include "environ.h"
#include "head.h"

enum { HEAD_CAP = 4096 };

/* The parts alone, for the tests that hold them equal to their twins. */

static PyObject *make_head(PyObject *module, PyObject *args)
{
    char made[HEAD_CAP];
    head_facts facts;
    octets prefix;
    Py_ssize_t size;
    PyObject *status, *headers;

    (void)module;
    if (!PyArg_ParseTuple(args, "s#OO", &prefix.at, &size, &status, &headers))
        return NULL;
    prefix.size = (size_t)size;
    if (!head_make(made, sizeof made, prefix, status, headers, &facts))
        Py_RETURN_NONE;
    return Py_BuildValue("y#iL", made, (Py_ssize_t)facts.size, facts.code,
                         facts.length);
}

static environ_cache cache;
static uint32_t last_section;

static PyObject *make_environ(PyObject *module, PyObject *args)
{
    environ_request request;
    Py_ssize_t size;
    PyObject *base, *made;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!py#IUU", &PyDict_Type, &base,
                          &request.is_front, &request.vars, &size,
                          &request.nfirst, &request.addr, &request.port))
        return NULL;
    request.vars_len = (size_t)size;
    made = environ_new(&cache, base, &request, &last_section);
    if (made == NULL && !PyErr_Occurred())
        Py_RETURN_NONE;
    return made;
}

static PyObject *forget(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    environ_clear(&cache);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"make_head", make_head, METH_VARARGS, NULL},
    {"make_environ", make_environ, METH_VARARGS, NULL},
    {"forget", forget, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "aserve._native",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__native(void);
PyMODINIT_FUNC PyInit__native(void)
{
    return environ_init() < 0 ? NULL : PyModule_Create(&definition);
}
