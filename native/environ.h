/* environ.h -- from the vars block to the environ of PEP 3333.
 *
 * The twin is aserve/wsgi/environ.py, build_environ: for each request both
 * make equal dicts, or this one says "not plain" and the twin is asked. */
#ifndef NATIVE_ENVIRON_H
#define NATIVE_ENVIRON_H

#include "text.h"

enum { ENVIRON_SECTIONS = 256 }; /* kept at most; a power of two */

/* A field section seen lately, and what it began. */
typedef struct {
    char *octets;
    uint32_t size;
    uint32_t hash;
    PyObject *base;  /* of the listener for which it was kept */
    PyObject *begun; /* a dict of the base and the section; NULL: seen once */
} environ_section;

/* Of one engine; zero-filled at first.  Used under the GIL. */
typedef struct {
    environ_section sections[ENVIRON_SECTIONS];
} environ_cache;

/* What one request brings. */
typedef struct {
    const char *vars; /* NAME NUL VALUE NUL ...: cparsers/vars.h */
    size_t vars_len;
    uint32_t nfirst; /* of its pairs come first: the request's own */
    int is_front;    /* they are a front server's (uwsgi, SCGI) */
    PyObject *addr;  /* str; of HTTP's */
    PyObject *port;
} environ_request;

/* Once, before anything else.  Returns -1 with an exception. */
int environ_init(void);

/* Return a new dict, without wsgi.input and wsgi.early_hints; NULL: with an
 * exception, or without one: not plain.  `base` is a base environ of
 * build_base_environ; `section` is where the section of this connection's last
 * request is in the cache, and is kept by the caller between requests. */
PyObject *environ_new(environ_cache *cache, PyObject *base,
                      const environ_request *request, uint32_t *section);

/* Let go of all that is kept. */
void environ_clear(environ_cache *cache);

#endif
