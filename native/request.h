/* request.h -- one request, from its arrival until its response is out.
 *
 * The app gets it as start_response, and it has write() and
 * wsgi.early_hints.  As long as a head and a body in memory are enough to
 * serve it, it is plain.  When more is needed, it is promoted: Python makes
 * its own objects of the present state (connections/lane/native.py), and they go
 * on.  The callables that the app holds then pass all calls on to them. */
#ifndef NATIVE_REQUEST_H
#define NATIVE_REQUEST_H

#include "head.h"
#include "lane.h"

typedef struct engine engine;
typedef struct method method;
typedef struct plain_request plain_request;

enum {
    REQUEST_HEAD_CAP = 1024, /* of the app's part; a longer one is not plain */
    /* Head and a small body: one send().  The app's part and the tail have
     * REQUEST_HEAD_CAP octets at most, the field of the request's name 232
     * (FIELD_NAME of settings/kinds.py, TOLD_MAX), all others together 128. */
    REQUEST_BUFFER_CAP = 4096,
    REQUEST_FREE_MAX = 64 /* kept for the next ones */
};

/* WAITING: no worker has begun it.  RUNNING: one has, here or in Python.  OVER:
 * it is not promoted any more.  A worker sets OVER before it hands a whole
 * response to the socket, as the next request of the connection may come at
 * once; and RUNNING again, if the socket has not taken all. */
enum { REQUEST_WAITING, REQUEST_RUNNING, REQUEST_OVER };

struct plain_request {
    PyObject_HEAD vectorcallfunc call; /* start_response */
    engine *engine;
    method *write;
    method *early_hints;
    plain_request *next; /* of those WAITING as jobs, or RUNNING */
    plain_request *previous;
    PyObject *twin; /* its Exchange, if it was promoted; NULL: it is plain */
    PyObject *response; /* the twin's, if the app had begun */
    PyObject *run;      /* and its Run (wsgi/deadlines.py), with deadlines */
    PyObject *body;     /* of the request: bytes, or NULL */
    PyObject *changes;  /* of the environ, by a proxy's words, or NULL */
    const char *vars;   /* the batch's, or own_vars */
    char *own_vars;
    lane_arrival arrival;
    double arrived_at; /* as time.monotonic() has it; 0.0: not needed */
    double began_at;
    unsigned long thread_id; /* of the worker that has begun it */
    int state;
    int is_inside; /* RUNNING: the worker is inside the app, and not in a call
                    * from there into this */
    int keep_alive;
    int has_head; /* start_response was called */
    /* of a body in pieces: stream.c */
    int is_full;    /* all of it is out */
    int is_sending; /* for a moment, and perhaps without the GIL */
    long long sent; /* octets of the body that are out; -1: nor is the head */
    PyObject *unsent; /* those, or of the head, that the socket did not take */
    head_facts facts;
    octets told_id; /* the name in the response; of the vars, or made_id */
    uint32_t made_id_size; /* 0: it came, or it is not named */
    char made_id[32];
    char buffer[REQUEST_BUFFER_CAP]; /* head, then a small body */
};

extern PyTypeObject request_type;
extern PyTypeObject method_type;

int request_init(void);

/* A new request; its vars are the caller's until request_end.  NULL: with an
 * exception. */
plain_request *request_new(engine *owner, const lane_arrival *arrival,
                           const char *vars, PyObject *body,
                           double arrived_at);

/* Let it have vars of its own.  Returns -1 with an exception. */
int request_keep_vars(plain_request *self);

/* Let Python go on.  Returns its Exchange (borrowed); NULL: with an exception,
 * or it is OVER. */
PyObject *request_promote(plain_request *self);

/* Where there are deadlines, a promoted request has a Run, and that has a
 * token (wsgi/deadlines.py): while it is there, the event loop may take it and
 * raise RequestTimeout in the worker.  So it is there while the worker runs
 * the app's own code, and nowhere else. */

/* The worker that calls this goes into the app, or back into it: an interrupt
 * may hit from now on. */
void request_interruptible_begin(plain_request *self);

/* It has come back, with an exception set or without one.  No interrupt can
 * come any more; one that hits only now is the exception, unless the app has
 * returned. */
void request_interruptible_end(plain_request *self);

/* It is OVER: let go of all that is not the app's.  Takes the reference. */
void request_end(plain_request *self);

#endif
