/* environ.h -- from the vars block to the environ of PEP 3333.
 *
 * The twin is aserve/wsgi/environ.py, build_environ: for each request both
 * make equal dicts, or this one says "not plain" and the twin is asked. */
#ifndef NATIVE_ENVIRON_H
#define NATIVE_ENVIRON_H

#include "sections.h"

/* The parts of one request. */
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
 * build_base_environ; `section` is the place in the cache of the section of this
 * connection's last request; the caller keeps it between requests, 0 at first. */
PyObject *environ_new(environ_cache *cache, PyObject *base,
                      const environ_request *request, uint32_t *section);

/* Let go of all that is kept. */
void environ_clear(environ_cache *cache);

#endif
