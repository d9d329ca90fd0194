/* text.c -- octets of a vars block as str, and the octets of a str. */
#include "text.h"

#include <string.h>

enum { NAMES = 1024 }; /* room for names; a power of two, at most half used */

static PyObject *names[NAMES]; /* interned; never given back */
static uint32_t name_count;

PyObject *text_of(const char *from, size_t size)
{
    return PyUnicode_FromKindAndData(PyUnicode_1BYTE_KIND, from,
                                     (Py_ssize_t)size);
}

static uint32_t hash_name(const char *from, size_t size)
{
    uint32_t hash = 2166136261u; /* FNV-1a: names are short */

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)from[i]) * 16777619u;
    return hash;
}

PyObject *text_name(const char *from, size_t size)
{
    uint32_t at = hash_name(from, size) & (NAMES - 1);
    PyObject *name;

    for (; (name = names[at]) != NULL; at = (at + 1) & (NAMES - 1))
        if ((size_t)PyUnicode_GET_LENGTH(name) == size &&
            memcmp(PyUnicode_1BYTE_DATA(name), from, size) == 0) {
            Py_INCREF(name);
            return name;
        }
    name = text_of(from, size);
    if (name != NULL && name_count < NAMES / 2) {
        PyUnicode_InternInPlace(&name);
        Py_INCREF(name);
        names[at] = name;
        name_count++;
    }
    return name;
}

octets text_next(const char **at, const char *end)
{
    octets part = {*at, 0};
    const char *nul = memchr(*at, 0, (size_t)(end - *at));

    part.size = (size_t)((nul != NULL ? nul : end) - *at);
    *at = nul != NULL ? nul + 1 : end;
    return part;
}
