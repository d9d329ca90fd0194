/* module.c -- aserve._native: the module of Python. */
#include "ends.h"
#include "stream.h"

#include <string.h>

enum { HEAD_CAP = 4096 };

/* The parts alone, for the tests that hold them equal to their twins. */

static PyObject *make_head(PyObject *module, PyObject *args)
{
    static const char guard[64] = "nothing is written behind the capacity";
    char made[HEAD_CAP + sizeof guard];
    head_facts facts;
    octets prefix;
    Py_ssize_t size, cap = HEAD_CAP;
    PyObject *status, *headers;
    int is_plain;

    (void)module;
    if (!PyArg_ParseTuple(args, "s#OO|n", &prefix.at, &size, &status, &headers,
                          &cap))
        return NULL;
    if (cap < 0 || cap > HEAD_CAP)
        return PyErr_Format(PyExc_ValueError, "cap must be 0 to %d", HEAD_CAP);
    prefix.size = (size_t)size;
    memcpy(made + cap, guard, sizeof guard);
    is_plain = head_make(made, (size_t)cap, prefix, status, headers, &facts);
    if (memcmp(made + cap, guard, sizeof guard) != 0)
        Py_FatalError("head_make wrote behind its capacity");
    if (!is_plain)
        Py_RETURN_NONE;
    return Py_BuildValue("y#iL", made, (Py_ssize_t)facts.size, facts.code,
                         facts.length);
}

static environ_cache cache;

static PyObject *make_environ(PyObject *module, PyObject *args)
{
    environ_request request;
    unsigned int section;
    Py_ssize_t size;
    PyObject *base, *made;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!py#IUUI", &PyDict_Type, &base,
                          &request.is_front, &request.vars, &size,
                          &request.nfirst, &request.addr, &request.port,
                          &section))
        return NULL;
    request.vars_len = (size_t)size;
    section %= ENVIRON_SECTIONS;
    made = environ_new(&cache, base, &request, &section);
    if (made == NULL) {
        if (PyErr_Occurred())
            return NULL;
        Py_INCREF(Py_None);
        made = Py_None;
    }
    return Py_BuildValue("NI", made, section);
}

static PyObject *take_out(PyObject *module, PyObject *args)
{
    taken_vars taken;
    unsigned int nfirst;
    Py_ssize_t size;
    const char *vars;
    int what;

    (void)module;
    if (!PyArg_ParseTuple(args, "y#Ii", &vars, &size, &nfirst, &what))
        return NULL;
    if (!taken_out((octets){vars, (size_t)size}, nfirst, what, &taken))
        Py_RETURN_NONE;
    return Py_BuildValue("y#y#", taken.rest, (Py_ssize_t)taken.size,
                         taken.id.at, (Py_ssize_t)taken.id.size);
}

static PyObject *forget(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    environ_clear(&cache);
    text_forget();
    Py_RETURN_NONE;
}

static PyObject *make_counts(PyObject *module, PyObject *args)
{
    PyObject *places, *ends, *found = NULL;
    counts *made;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &places, &PyList_Type,
                          &ends))
        return NULL;
    made = counts_new(places);
    for (Py_ssize_t i = 0; made != NULL && i < PyList_GET_SIZE(ends); i++) {
        int status, is_cut, was_timed;
        double wait, run;
        Py_ssize_t size;

        if (!PyArg_ParseTuple(PyList_GET_ITEM(ends, i), "ipnpdd", &status,
                              &is_cut, &size, &was_timed, &wait, &run))
            break;
        counts_add(made, status, is_cut, (size_t)size, was_timed, wait, run);
    }
    if (made != NULL && !PyErr_Occurred())
        found = counts_take(made);
    PyMem_Free(made);
    return found;
}

static int add_end(lines *to, PyObject *end)
{
    line_end of = {0};
    unsigned long long key;
    Py_ssize_t vars_size, id_size, size;
    PyObject *addr, *changes;

    if (!PyArg_ParseTuple(end, "y#pUOy#inpdddkK", &of.vars.at, &vars_size,
                          &of.is_front, &addr, &changes, &of.made_id.at,
                          &id_size, &of.status, &size, &of.is_gone,
                          &of.arrived_at, &of.began_at, &of.ended_at,
                          &of.thread_id, &key))
        return -1;
    of.vars.size = (size_t)vars_size;
    of.made_id.size = (size_t)id_size;
    of.size = (size_t)size;
    of.thread_key = key;
    of.changes = changes != Py_None ? changes : NULL;
    if (!text_octets(addr, &of.addr)) {
        PyErr_BadArgument();
        return -1;
    }
    if (lines_prepare(to, &of) < 0)
        return -1;
    return lines_add(to, &of);
}

static PyObject *make_lines(PyObject *module, PyObject *args)
{
    PyObject *program, *ends, *found = NULL, *plain = PyList_New(0);
    lines *made = NULL;

    (void)module;
    if (plain != NULL &&
        PyArg_ParseTuple(args, "OO!", &program, &PyList_Type, &ends))
        made = lines_new(program);
    for (Py_ssize_t i = 0; made != NULL && i < PyList_GET_SIZE(ends); i++) {
        int is_plain = add_end(made, PyList_GET_ITEM(ends, i));

        if (is_plain < 0 ||
            PyList_Append(plain, is_plain ? Py_True : Py_False) < 0)
            break;
    }
    if (made != NULL && !PyErr_Occurred())
        found = lines_take(made);
    lines_free(made);
    if (found != NULL)
        return Py_BuildValue("NN", found, plain);
    Py_XDECREF(plain);
    return NULL;
}

static PyMethodDef methods[] = {
    {"make_lines", make_lines, METH_VARARGS, NULL},
    {"make_counts", make_counts, METH_VARARGS, NULL},
    {"make_head", make_head, METH_VARARGS, NULL},
    {"make_environ", make_environ, METH_VARARGS, NULL},
    {"take_out", take_out, METH_VARARGS, NULL},
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
    PyObject *made;

    if (environ_init() < 0 || serve_init() < 0 || request_init() < 0 ||
        ends_init() < 0 || lines_init() < 0 || request_id_init() < 0 ||
        leader_init() < 0 || stream_init() < 0 ||
        PyType_Ready(&engine_type) < 0 || PyType_Ready(&request_type) < 0 ||
        PyType_Ready(&method_type) < 0)
        return NULL;
    made = PyModule_Create(&definition);
    Py_INCREF(&engine_type);
    if (made != NULL &&
        PyModule_AddObject(made, "Engine", (PyObject *)&engine_type) < 0) {
        Py_DECREF(&engine_type);
        Py_CLEAR(made);
    }
    return made;
}
