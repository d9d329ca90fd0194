/* engine.h -- serving plain requests: the leader's loop (POSA2,
 * Leader/Followers) of one lane, in C.
 *
 * All of it runs under the GIL.  The app, a wait for requests and a large send
 * release it, and so may any call of Python's, and, before 3.12, the making
 * of any object that the collector tracks: after these, check again.  The
 * twin is Executor._lead with Lane.submit_arrivals, Connection.run,
 * Gateway.respond and FastWire.reply. */
#ifndef NATIVE_ENGINE_H
#define NATIVE_ENGINE_H

#include "counts.h"
#include "environ.h"
#include "forwarded.h"
#include "lines.h"
#include "request.h"
#include "request_id.h"

enum {
    HELD_MAX = 1 << 14, /* octets; a longer send lets go of the GIL */
    BODY_MAX = 1 << 17  /* a longer one is sent in parts, by the twin */
};

/* The facts about a connection, by its descriptor. */
typedef struct {
    PyObject *addr; /* str, "" on a unix socket; NULL: not known */
    PyObject *port;
    PyObject *base;          /* of its environs; NULL: that of the listener */
    uint32_t section;        /* see environ_new */
    uint32_t has_connection; /* Lane.connections has a Connection of it */
    uint32_t belief;         /* FORWARDED_UNASKED ... */
} engine_peer;

/* The state that the connections of one listener share. */
typedef struct {
    PyObject *app;  /* NULL: nothing is plain there */
    PyObject *base; /* environ */
    PyObject *status_prefix;
    octets prefix; /* of that */
    int is_front;
    /* The log line about a field that the app does not see: a LogOnce, which
     * Python logs, or True, when it was logged; NULL: such a request is
     * not plain. */
    /* Fields in which proxies describe their client; False: the app sees
     * them as they came. */
    PyObject *removal;
    PyObject *drop; /* fields whose names have an underscore, or Proxy */
    /* The entries of an environ that trusted peers' claims change: a dict of
     * dicts, by octets; NULL: no peer is trusted. */
    PyObject *changes;
    /* Each request gets a name; a response has it after these octets, unless
     * they are empty: bytes; NULL: requests get no name. */
    PyObject *id_field;
    int is_trusting; /* trusted peers' claims change the environ */
} engine_service;

/* The requests that a worker has taken from the lane, and not begun. */
typedef struct batch {
    struct batch *next;
    uint32_t count;
    uint32_t taken;
    uint32_t users; /* the worker that has taken it; threads that spill it */
    double arrived_at;
    lane_arrival *arrivals;
    PyObject **bodies; /* bytes, or NULL */
    char *vars;
} batch;

/* Who reads the ends of requests: see ends.h. */
typedef struct {
    PyObject *noted;   /* the deque of Ends; NULL: no reader takes each */
    PyObject *append;  /* of that */
    PyObject *flush;   /* of Ends */
    PyObject *records; /* a list that is not in the deque yet, or NULL */
    lines *lines;      /* the same in lines; NULL: Python makes them */
    Py_ssize_t most;   /* that wait */
    double soon;       /* a request that was quicker may wait */
    double due_at;     /* from then on the next one does not */
    double slow_seconds;
    int wants_head;
    PyObject *places; /* where they are counted, or NULL */
    counts *counted;
    PyObject *program; /* of the lines, or NULL */
} ends_log;

struct engine {
    PyObject_HEAD
        /* cparsers' functions, and their lane */
        lane *set;
    Py_ssize_t lane_bytes; /* by cparsers */
    int (*poll)(lane *, int);
    int (*look)(lane *);
    int (*reply)(lane *, int, const char *, uint32_t, const char *, uint32_t,
                 int);
    int64_t (*send)(lane *, int, const lane_part *, uint32_t);
    void (*wake)(lane *);
    int (*parse_array)(const char *, size_t, aserve_span *, uint32_t);
    /* Python's objects */
    PyObject *owner; /* connections/lane/native.py, Native */
    PyObject *executor;
    PyObject *jobs;           /* of the executor's: a deque; and so on */
    PyObject *leadership;     /* a list */
    PyObject *waiting_leader; /* a list */
    PyObject *compensated;    /* a dict */
    PyObject *connections;    /* of the lane's: a dict, by descriptor */
    PyObject *runs;           /* of Deadlines: a dict, by thread; or NULL */
    PyObject *written_off;    /* errors.WrittenOff */
    PyObject *overdue;        /* of the lane's: a deque */
    PyObject *forked;         /* forks.forked */
    PyObject *tail;           /* Date, Server and the empty line: bytes */
    PyObject *tls_tail;       /* the same, of listeners of TLS */
    PyObject *health_path;    /* bytes, or NULL */
    PyObject *new_input;      /* io.BytesIO */
    PyObject *ends_parts;     /* Parts of core/ends.py; NULL: no reader */
    PyObject *service_parts;  /* a list of ServiceParts */
    PyObject *respond;        /* Functions.respond_framed, wsgi/rpc_calls.py */
    PyObject *ended;          /* the classes of seam.h's tuples */
    PyObject *state;
    PyObject *run; /* of this engine: the function of a job */
    engine_service *services;
    Py_ssize_t nservices;
    engine_peer *peers; /* by descriptor */
    uint32_t npeers;
    environ_cache environs;
    request_id_pool ids;
    ends_log ends;
    batch *batches;          /* those that are not begun to the end */
    plain_request *requests; /* those that wait as jobs, or run */
    plain_request *free[REQUEST_FREE_MAX];
    int nfree;
    uint32_t last_count; /* arrivals of the last poll */
    unsigned long long progress;
    unsigned long long nplain; /* answered here, and by a twin: for tests */
    unsigned long long npromoted;
    Py_ssize_t nforks; /* of `forked`, in the process that serves */
    char is_draining;
    int takes_times;
};

/* Whether this process is a child of the one that serves: the app has forked
 * it, and its parent answers. */
static inline int engine_is_child(const engine *self)
{
    return PyList_GET_SIZE(self->forked) != self->nforks;
}

/* Whether nothing has come between that Python has to see: another thread, or
 * the app itself, has promoted it, or this is a child of the app's. */
static inline int request_is_plain(const engine *self,
                                   const plain_request *served)
{
    return served->twin == NULL && !engine_is_child(self);
}

extern PyTypeObject engine_type;

/* serve.c */
int serve_init(void);

/* As time.monotonic() has it. */
double serve_now(void);

/* Log an exception that is a bug in aserve; this request is lost, later ones
 * are not. */
void serve_report(engine *self);

/* Close the connection of a request that cannot be served, with an exception
 * set: it is logged.  `lost`: the request, unless it could not be made. */
void serve_lose(engine *self, int fd, plain_request *lost);

/* Serve a request that no worker has begun; takes the reference.
 * Returns 0; 1: its twin has; -1: with an exception that ends the worker. */
int serve(engine *self, plain_request *served);

/* Send a whole response, and end the request.  `body_size`: octets of the
 * response's body, for the log and the counters; 0 for a call.  Returns as
 * serve. */
int serve_send(engine *self, plain_request *served, octets head, octets body,
               size_t body_size);

/* Promote it, and go on with the twin, by one of these methods of the owner's
 * (connections/lane/native.py):
 *
 *   name      argument                         when
 *   run       NULL                             no part of it has begun
 *   finish    the app's return value           that is not plain
 *   fail      the exception                    the app has raised it
 *   stream    see stream.c, go_on_in_python    some pieces are left
 *   leave     (octets not sent, body's size)   the socket has not taken all
 *   answer    the reply                        an RPC call's is not plain
 *
 * Returns 1; -1: with an exception that ends the worker. */
int serve_go_on(engine *self, plain_request *served, const char *name,
                PyObject *argument);

/* The exception that is set, and no more; NULL: there is none. */
PyObject *serve_take_exception(void);

/* Write the end of each head, after the app's part; returns its end. */
char *serve_put_tail(engine *self, plain_request *served, char *to);

/* batch.c */

/* Sort the arrivals of the last poll: plain requests into a new batch, the
 * others to the front of the lane's table; `nothers`: how many.  NULL: there
 * is no memory, and all are others. */
batch *batch_take(engine *self, uint32_t count, uint32_t *nothers);

/* Begin the next request of a batch that is not begun to the end. */
plain_request *batch_next(engine *self, batch *from);

/* Whether there is a request that no worker has begun. */
int batch_is_waiting(const engine *self);

/* Put it among the engine's; let go of it. */
void batch_add(engine *self, batch *added);
void batch_free(engine *self, batch *freed);

/* Make jobs of all that no worker has begun; but leave `begun`, unless it is
 * NULL, its next one. */
void batch_spill(engine *self, batch *begun);

int leader_init(void);

/* leader.c: lead and serve until there is other work (1), or another worker
 * leads (0).  Returns -1 with an exception that ends the worker. */
int leader_work(engine *self);

/* Make jobs of the arrivals of the last poll. */
void leader_submit(engine *self, uint32_t count);

#endif
