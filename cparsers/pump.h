/* pump.h -- large bodies to sockets, a few at a time.
 * A pump sends whole responses, whose bodies are in memory or in files, to
 * sockets that the caller owns.  Octets for a few clients at once are still in
 * the CPU's caches when they read them, so each body has a turn, first come,
 * first served.  A client that is not quick enough loses its turn, and is sent
 * to beside the others; one that is late is given back to the caller.
 * Linux (epoll) only, as the lane; elsewhere there is none.
 * No allocation, no globals.  pump_wake: any thread; all others: one thread. */
#ifndef ASERVE_PUMP_H
#define ASERVE_PUMP_H
#include <stdint.h>
#include "tls.h"
/* cdef:begin */

/* The result of sending a body. */
enum {
    PUMP_SENT = 0,
    PUMP_GONE = 1,  /* the client is gone */
    PUMP_SHORT = 2, /* the file has ended early, or cannot be read */
    PUMP_LATE = 3   /* not all is sent: the caller goes on */
};

typedef struct {
    const char *head;
    const char *body;     /* NULL: it is a file's */
    tls_session *session; /* NULL: no TLS */
    uint64_t head_left;
    uint64_t left;   /* octets of the body */
    uint64_t offset; /* of the next one, from `body`, or in the file */
    int32_t fd;
    int32_t file_fd;
    int32_t outcome;        /* PUMP_SENT ...; of one that has ended */
    int32_t error;          /* an errno, or 0; of PUMP_GONE and PUMP_SHORT */
    uint32_t unsent_before; /* its socket's TCP_NOTSENT_LOWAT */
    /* kept by the pump */
    uint32_t has_turn;
    uint64_t turn_until; /* monotonic microseconds */
    uint64_t until;
    int32_t next; /* of those that wait, or of those that have begun; -1 */
    int32_t previous;
} pump_body;

typedef struct {
    /* set by the caller, once */
    pump_body *bodies; /* zero-filled */
    int32_t *ended;
    uint32_t cap;     /* of both */
    uint32_t late_us; /* from the beginning of its turn a client is late */
    /* set by pump_open */
    int32_t epoll_fd;
    int32_t wake_fd;
    /* kept by the pump */
    uint32_t nended;
    uint32_t nturns; /* bodies that have a turn */
    uint32_t width;  /* as many may have one */
    int32_t first_waiting;
    int32_t last_waiting;
    int32_t first_begun;
    uint64_t look_at; /* when a turn may be over, at the earliest */
} pump;

/* Returns 0 or an errno, after which only pump_close may follow. */
int pump_open(pump *set);

void pump_close(pump *set);

/* Let body `i` wait for its turn: `head`, and then `count` octets of `body`, or
 * of `file_fd` where that is NULL, from `offset` on.  All of it is the pump's
 * until the body has ended, and so are the descriptor and its session. */
void pump_add(pump *set, int32_t i, int fd, tls_session *session,
              const char *head, uint32_t head_len, const char *body,
              int file_fd, uint64_t offset, uint64_t count,
              uint32_t unsent_before);

/* Send until bodies have ended, or pump_wake is called; return how many have:
 * `ended` has their numbers. */
int pump_run(pump *set);

/* Make pump_run return. */
void pump_wake(pump *set);

/* cdef:end */
#endif
