/* stream.h -- a body that the app gives piece by piece.
 *
 * The twin is Gateway._stream with Response.encode and Response.finish.  What
 * is not plain in the middle of it goes on in Python from there: wsgi/begun.py
 * has what is left. */
#ifndef NATIVE_STREAM_H
#define NATIVE_STREAM_H

#include "engine.h"

#include <sys/uio.h>

int stream_init(void);

/* Whether what an app has returned is sent by `stream`. */
int stream_takes(const engine *self, const plain_request *served,
                 PyObject *iterable);

/* Send what the app gives, close the iterable, and end the response.  Returns
 * what serve() does. */
int stream(engine *self, plain_request *served, PyObject *iterable,
           int has_no_body);

/* What a socket has not taken of `count` parts, of which `sent` octets are out:
 * bytes; NULL: with an exception. */
PyObject *stream_unsent(const struct iovec *parts, int count, size_t sent);

#endif
