/* call.h -- a call by an RPC packet, whose reply is a packet, too. */
#ifndef NATIVE_CALL_H
#define NATIVE_CALL_H

#include "engine.h"

/* Whether C understands all of a call.  The packet is its request's body. */
int call_is_plain(const engine *self, const lane_arrival *arrival);

/* Call the function, and send its reply.  Returns as serve. */
int call_serve(engine *self, plain_request *served);

#endif
