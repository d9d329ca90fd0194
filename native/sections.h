/* sections.h -- recent field sections, and the dicts that they began.
 *
 * One client sends the same section with each request.  The dict that it begins,
 * of the listener's base and the section's fields, is kept when the section
 * comes a second time: from then on it is compared instead of read. */
#ifndef NATIVE_SECTIONS_H
#define NATIVE_SECTIONS_H

#include "text.h"

enum {
    ENVIRON_SECTIONS = 256, /* kept at most; a power of two */
    SECTION_MAX = 2048      /* octets; longer ones are not kept */
};

/* A place for a section and for the dict that it began. */
typedef struct {
    PyObject *base;  /* of the listener for which it is kept; NULL: empty */
    PyObject *begun; /* never given out: each request gets a copy */
    char *octets;
    uint32_t size;
    int is_front;
    uint32_t seen; /* hash of the last that came here and is not kept */
} environ_section;

/* Of one engine; zero-filled at first.  Used under the GIL. */
typedef struct {
    environ_section sections[ENVIRON_SECTIONS];
} environ_cache;

/* The key by which a section is found. */
typedef struct {
    PyObject *base; /* borrowed */
    octets fields;
    int is_front;
    /* private */
    uint32_t hash;
} section_key;

/* Return a copy of the dict of a section; NULL: with an exception, or without
 * one: it is not kept.  The place *last is tried first, and then is the
 * section's own. */
PyObject *sections_copy(environ_cache *cache, section_key *key,
                        uint32_t *last);

/* Keep a copy of the dict of a section if the section came last time, too.
 * `key` has been through sections_copy. */
void sections_offer(environ_cache *cache, const section_key *key,
                    PyObject *begun);

/* Let go of all that is kept. */
void sections_clear(environ_cache *cache);

#endif
