/* lane.h -- many short connections in few calls.
 * Accepts, reads and parses a batch of connections that carry one request
 * each; sends a batch of responses and closes.  This is the one room of
 * cparsers/ that does I/O: on non-blocking sockets only, so that no call
 * waits.  Linux (accept4) only; elsewhere LANE_AVAILABLE is 0.
 * No allocation, no globals.  Safe to call from any thread. */
#ifndef ASERVE_LANE_H
#define ASERVE_LANE_H
#include "aserve.h"
#include "scgi.h"
#include "uwsgi.h"
/* cdef:begin */

enum { LANE_UWSGI = 1, LANE_SCGI = 2 };

/* One accepted connection and what its first read gave. */
typedef struct {
    uint64_t content_length; /* octets of the body, by the head */
    int32_t fd;
    int32_t consumed;   /* octets of the head (> 0), or an ASERVE_ code */
    uint32_t input_off; /* what was read is at lane->input + input_off; */
    uint32_t input_len; /* 0: nothing yet, or the peer is gone */
    uint32_t vars_off;  /* the vars block is at lane->vars + vars_off */
    uint32_t vars_len;
    uint32_t nvars;
    uint32_t modifier1; /* uwsgi; 0 with SCGI */
} lane_arrival;

typedef struct {
    /* set by the caller, once */
    int listener;      /* a listening, non-blocking socket */
    uint32_t protocol; /* LANE_* */
    char *input;
    uint32_t input_cap; /* octets */
    uint32_t read_cap;  /* octets read at most from one connection */
    char *vars;
    uint32_t vars_cap;     /* octets */
    uint32_t max_head_len; /* as in the two parsers */
    uint32_t max_vars;
    lane_arrival *arrivals;
    uint32_t arrivals_cap; /* connections accepted by one call */
    /* set by lane_accept */
    uint32_t vars_len; /* octets written to vars */
    int accept_errno;  /* why accepting stopped, 0 when `cap` did it */
} lane_batch;

/* 1 where this platform has what lane_accept needs. */
int lane_available(void);

/* Accept until there is nobody, or no room for one more connection's input
 * and vars; read once from each, and parse.  A pair of NULs never stands in
 * `vars`: between the blocks of two arrivals is one NUL.
 * Returns the number of arrivals. */
int lane_accept(lane_batch *lane);

/* Send the next `lens[i]` octets of `octets` to `fds[i]`, for i in 0 .. n;
 * close those that took them all, and set sent[i] to -1.  For any other,
 * sent[i] is how many octets it took, and it stays open.
 * `fds` and `lens` are arrays of int32_t and uint32_t in native order.
 * Returns how many stay open. */
int lane_send(const char *fds, const char *lens, uint32_t n,
              const char *octets, int32_t *sent);

/* cdef:end */
#endif
