/* text.h -- octets of a vars block as str, and the octets of a str. */
#ifndef NATIVE_TEXT_H
#define NATIVE_TEXT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A run of octets that something else owns. */
typedef struct {
    const char *at;
    size_t size;
} octets;

/* A new str of octets, as latin-1 (PEP 3333, "Unicode Issues"); NULL: with an
 * exception. */
PyObject *text_of(const char *from, size_t size);

/* The same for the name of a CGI variable.  As long as there is room it is the
 * same object each time, of which CPython knows the hash. */
PyObject *text_name(const char *from, size_t size);

/* Let go of all names that are kept. */
void text_forget(void);

/* The octets of a str as latin-1.  Returns 0, without an exception, when it is
 * no exact str (a subclass may override anything), or has another character. */
static inline int text_octets(PyObject *text, octets *to)
{
    if (!PyUnicode_CheckExact(text))
        return 0;
#if PY_VERSION_HEX < 0x030C0000 /* later ones are always ready */
    if (PyUnicode_READY(text) < 0) {
        PyErr_Clear();
        return 0;
    }
#endif
    if (PyUnicode_KIND(text) != PyUnicode_1BYTE_KIND)
        return 0;
    to->at = (const char *)PyUnicode_1BYTE_DATA(text);
    to->size = (size_t)PyUnicode_GET_LENGTH(text);
    return 1;
}

/* Write octets, or a number in digits of a base up to 16 (20 octets at most in
 * base 10); return their end. */
static inline char *text_put(char *to, octets from)
{
    memcpy(to, from.at, from.size);
    return to + from.size;
}

/* The text before a mark; all of it, if it has none. */
static inline octets text_before(octets whole, char mark)
{
    const char *at =
        whole.size > 0 ? memchr(whole.at, mark, whole.size) : NULL;

    return at != NULL ? (octets){whole.at, (size_t)(at - whole.at)} : whole;
}

char *text_put_number(char *to, size_t number, unsigned base);

/* The text before the next NUL, or `end`; *at moves behind it.  Inline, as
 * reading a block is little else: 1,400 instructions of 25,000 for a request
 * that is named (CPython 3.11, callgrind). */
static inline octets text_next(const char **at, const char *end)
{
    octets part = {*at, 0};
    const char *nul = memchr(*at, 0, (size_t)(end - *at));

    part.size = (size_t)((nul != NULL ? nul : end) - *at);
    *at = nul != NULL ? nul + 1 : end;
    return part;
}

/* Read NAME NUL VALUE, and the NUL behind it unless the block ends there.
 * Returns 0: there is no pair. */
static inline int text_pair(const char **at, const char *end, octets *name,
                            octets *value)
{
    *name = text_next(at, end);
    if (name->at + name->size == end)
        return 0;
    *value = text_next(at, end);
    return 1;
}

/* The octets of a literal. */
#define OCTETS(literal) ((octets){literal, sizeof(literal) - 1})

static inline int is_equal(octets left, octets right)
{
    return left.size == right.size &&
           memcmp(left.at, right.at, right.size) == 0;
}

static inline int begins_with(octets whole, octets part)
{
    return whole.size >= part.size &&
           memcmp(whole.at, part.at, part.size) == 0;
}

#endif
