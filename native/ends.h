/* ends.h -- the ends of requests, as their readers get them.
 *
 * The twin is aserve/core/ends.py: Ends keeps them for a moment, and passes
 * them to the access log and the counters in batches.  Here they are counted,
 * and kept as lines of the log (lines.h), or as records, of which Python makes
 * lines; batches of them are put into the deque of Ends. */
#ifndef NATIVE_ENDS_H
#define NATIVE_ENDS_H

#include "engine.h"

int ends_init(void);

/* Take Ends.parts; NULL: there is no reader.  Returns -1 with an
 * exception. */
int ends_take(ends_log *to, PyObject *parts);

/* For the collector. */
int ends_visit(ends_log *from, visitproc visit, void *arg);
void ends_clear(ends_log *from);

void ends_free(ends_log *from);

/* How many are not in the deque yet. */
Py_ssize_t ends_count(const ends_log *from);

/* Put them there: lines as bytes, records as a list.  Runs no other thread in
 * between.  Returns -1 with an exception. */
int ends_put(ends_log *from);

/* The client's address, which another connection's may replace as soon as the
 * response is out; NULL: no reader asks. */
PyObject *ends_addr(const engine *self, const plain_request *served);

/* Whether a request has taken so long that Python must report it. */
int ends_is_slow(const engine *self, const plain_request *served);

/* Note that a response is out, or that its client `is_gone`; takes `addr`.
 * `size`: octets of its body. */
void ends_note(engine *self, const plain_request *served, PyObject *addr,
               size_t size, int is_gone);

#endif
