/* sections.c -- recent field sections, and the dicts that they began.
 *
 * A section has one place, by its hash.  Clients can send sections of one
 * hash: then one takes another's place, no more.  A section that is found has
 * been compared as a whole.
 *
 * The GIL does not keep other threads out all the time: where CPython makes a
 * dict it may run its collector, and where it frees one, a finalizer.  So a
 * kept dict is held while it is copied, and a place has its new content before
 * the old one is released. */
#include "sections.h"

#include <string.h>

static uint32_t hash_key(const section_key *key)
{
    const uint64_t factor = 0x9E3779B97F4A7C15u; /* 2^64 / golden ratio */
    uint64_t hash = (uint64_t)(uintptr_t)key->base ^ key->fields.size;
    const char *at = key->fields.at;
    size_t left = key->fields.size;
    uint64_t word;

    for (; left >= sizeof word; left -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = (hash ^ word) * factor;
        hash ^= hash >> 32;
    }
    word = 0;
    memcpy(&word, at, left);
    return (uint32_t)(((hash ^ word) * factor) >> 32);
}

/* A plain dict is the base of one client, which it is not to outlive. */
static int may_be_kept(const section_key *key)
{
    return !PyDict_CheckExact(key->base) && key->fields.size <= SECTION_MAX;
}

static int is_kept(const environ_section *section, const section_key *key)
{
    return section->base == key->base && section->size == key->fields.size &&
           section->is_front == key->is_front &&
           memcmp(section->octets, key->fields.at, section->size) == 0;
}

static environ_section *place(environ_cache *cache, uint32_t hash)
{
    return &cache->sections[hash & (ENVIRON_SECTIONS - 1)];
}

static PyObject *copy_begun(const environ_section *section)
{
    PyObject *begun = section->begun;
    PyObject *copy;

    Py_INCREF(begun);
    copy = PyDict_Copy(begun);
    Py_DECREF(begun);
    return copy;
}

PyObject *sections_copy(environ_cache *cache, section_key *key, uint32_t *last)
{
    environ_section *section = place(cache, *last);

    if (is_kept(section, key))
        return copy_begun(section);
    if (!may_be_kept(key))
        return NULL;
    key->hash = hash_key(key);
    *last = key->hash & (ENVIRON_SECTIONS - 1);
    section = place(cache, key->hash);
    return is_kept(section, key) ? copy_begun(section) : NULL;
}

static void replace(environ_section *section, environ_section content)
{
    environ_section old = *section;

    *section = content;
    PyMem_Free(old.octets);
    Py_XDECREF(old.base);
    Py_XDECREF(old.begun);
}

/* Without memory the section is not kept: the answer does not depend on it. */
static void keep(environ_section *section, const section_key *key,
                 PyObject *begun)
{
    char *kept = PyMem_Malloc(key->fields.size);
    PyObject *copy = PyDict_Copy(begun);

    if (kept == NULL || copy == NULL) {
        PyErr_Clear();
        PyMem_Free(kept);
        Py_XDECREF(copy);
        return;
    }
    memcpy(kept, key->fields.at, key->fields.size);
    Py_INCREF(key->base);
    replace(section, (environ_section){.base = key->base,
                                       .begun = copy,
                                       .octets = kept,
                                       .size = (uint32_t)key->fields.size,
                                       .is_front = key->is_front,
                                       .seen = key->hash});
}

void sections_offer(environ_cache *cache, const section_key *key,
                    PyObject *begun)
{
    environ_section *section;

    if (!may_be_kept(key))
        return;
    section = place(cache, key->hash);
    if (section->seen == key->hash)
        keep(section, key, begun);
    else
        section->seen = key->hash;
}

void sections_clear(environ_cache *cache)
{
    for (uint32_t i = 0; i < ENVIRON_SECTIONS; i++)
        replace(&cache->sections[i], (environ_section){0});
}
