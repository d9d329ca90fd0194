/* text.c -- octets of a vars block as str. */
#include "text.h"

#include <string.h>

/* Clients make names up.  So only short ones are kept, each in one of a few
 * places, and there is nothing more to look at. */
enum {
    NAMES = 1024,      /* places; a power of two */
    PLACES = 8,        /* for one name */
    KEPT_NAME_MAX = 64 /* octets */
};

static PyObject *names[NAMES]; /* interned */

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

static int is_text(PyObject *name, const char *from, size_t size)
{
    return (size_t)PyUnicode_GET_LENGTH(name) == size &&
           memcmp(PyUnicode_1BYTE_DATA(name), from, size) == 0;
}

static PyObject *keep(PyObject **place, PyObject *name)
{
    if (name != NULL) {
        PyUnicode_InternInPlace(&name);
        Py_INCREF(name);
        *place = name;
    }
    return name;
}

PyObject *text_name(const char *from, size_t size)
{
    uint32_t hash;

    if (size > KEPT_NAME_MAX)
        return text_of(from, size);
    hash = hash_name(from, size);
    for (uint32_t i = 0; i < PLACES; i++) {
        PyObject **place = &names[(hash + i) & (NAMES - 1)];

        if (*place == NULL)
            return keep(place, text_of(from, size));
        if (is_text(*place, from, size)) {
            Py_INCREF(*place);
            return *place;
        }
    }
    return text_of(from, size);
}

void text_forget(void)
{
    for (uint32_t i = 0; i < NAMES; i++)
        Py_CLEAR(names[i]);
}

char *text_put_number(char *to, size_t number, unsigned base)
{
    char digits[20], *at = digits + sizeof digits;
    size_t size;

    do
        *--at = "0123456789abcdef"[number % base];
    while ((number /= base) > 0);
    size = (size_t)(digits + sizeof digits - at);
    memcpy(to, at, size);
    return to + size;
}
