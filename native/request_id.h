/* request_id.h -- a name for each request: given by a proxy, or made here.
 * The twin is aserve/wsgi/request_id.py. */
#ifndef NATIVE_REQUEST_ID_H
#define NATIVE_REQUEST_ID_H

#include "request.h"
#include "text.h"

/* Random octets, drawn for some names at once.  Zero-filled at first. */
enum { REQUEST_ID_OCTETS = 16, REQUEST_ID_POOL = 256 };
typedef struct {
    uint32_t left;
    unsigned char octets[REQUEST_ID_POOL];
} request_id_pool;

int request_id_init(void);

/* Name a request in its environ: by the `id` that came, or, if that is NULL,
 * anew; `served` gets the name for the response.  Returns 1; 0: not plain; -1: with an exception. */
int request_id_set(engine *self, plain_request *served, octets id,
                   PyObject *env);

#endif
