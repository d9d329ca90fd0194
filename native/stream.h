/* stream.h -- a body that the app gives piece by piece.
 *
 * The twin is Gateway._stream with Response.encode and Response.finish.  A
 * response that stops being plain goes on in Python from there: wsgi/begun.py
 * has the rest. */
#ifndef NATIVE_STREAM_H
#define NATIVE_STREAM_H

#include "engine.h"

#include <sys/uio.h>

int stream_init(void);

/* Whether `stream` can send an app's return value. */
int stream_takes(const engine *self, const plain_request *served,
                 PyObject *iterable);

/* Send the app's pieces, close the iterable, and end the response.  Returns
 * as serve() does. */
int stream(engine *self, plain_request *served, PyObject *iterable,
           int has_no_body);

/* The octets that a socket has not taken of `count` parts, of which `sent` are
 * out: bytes; NULL: with an exception. */
PyObject *stream_unsent(const struct iovec *parts, int count, size_t sent);

#endif
