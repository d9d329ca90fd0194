/* forwarded.h -- the entries of the environ that a trusted proxy's claims change.
 *
 * The twin is aserve/proxies/trust.py, which C calls once for equal claims. */
#ifndef NATIVE_FORWARDED_H
#define NATIVE_FORWARDED_H

#include "request.h"
#include "taken.h"

/* Whether the peer of a connection is believed. */
enum { FORWARDED_UNASKED, FORWARDED_UNBELIEVED, FORWARDED_BELIEVED };

/* Whether the peer of a connection is believed.  Returns -1 with an exception. */
int forwarded_is_believed(engine *self, const lane_arrival *arrival);

/* Return the entries that a trusted peer's claims change, a dict; NULL: with
 * an exception, or without one: not plain. */
PyObject *forwarded_changes(engine *self, const plain_request *served,
                            const taken_vars *taken);

#endif
