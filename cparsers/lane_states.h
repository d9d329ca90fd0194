/* lane_states.h -- the states of a lane's connections, and its epoll set: what
 * the sources of the lane share.  Never part of an interface to Python.
 *
 * Connections are in the epoll set edge-triggered, so that a request costs no
 * call but recv and send: an edge that comes while a request is with the
 * caller is remembered in the state (MORE), and brought back by lane_reply.
 * A connection whose first read gives a whole request joins the set only when
 * it is kept; one that carries a single request never does.  Listeners are
 * level-triggered: what a full batch leaves in their queue is told again.
 *
 * A state changes by compare-and-swap.  IDLE belongs to lane_poll, lane_sweep
 * and lane_close, whoever is first; BUSY and MORE belong to the caller, but
 * that lane_poll makes MORE of BUSY; FREE belongs to whoever has the
 * descriptor with that number.  Only the owner closes a descriptor, and only
 * while it owns the connection it does anything with it: the number may be
 * another connection's at once. */
#ifndef ASERVE_LANE_STATES_H
#define ASERVE_LANE_STATES_H
#include "lane.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PEER_LEN = 64,      /* an address and a port as text */
    LISTENER = 1 << 30, /* + index: the key of a listener; else it is an fd */
    WAKE = 1 << 29      /* the key of wake_fd */
};

/* What is told of a connection: octets, the end, urgent data; once. */
static const uint32_t EDGES = EPOLLIN | EPOLLRDHUP | EPOLLPRI | EPOLLET;

/* Whether the table has a place for this descriptor: -1 has none. */
static inline int has(const lane *set, int fd)
{
    return (uint32_t)fd < set->conns_cap;
}

/* The states */

static inline int change(lane_conn *conn, uint8_t from, uint8_t to)
{
    return __atomic_compare_exchange_n(&conn->state, &from, to, 0,
                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static inline uint8_t state_of(lane_conn *conn)
{
    return __atomic_load_n(&conn->state, __ATOMIC_ACQUIRE);
}

static inline void set_state(lane_conn *conn, uint8_t state)
{
    __atomic_store_n(&conn->state, state, __ATOMIC_RELEASE);
}

/* From BUSY or MORE, which are this thread's, to another state. */
static inline void give_up(lane_conn *conn, uint8_t to)
{
    uint8_t state;

    do {
        while ((state = state_of(conn)) == LANE_ENDING)
            sched_yield();
    } while (!change(conn, state, to));
}

/* Close a connection that this thread has made BUSY, or found so. */
static inline void drop(lane *set, int fd)
{
    give_up(&set->conns[fd], LANE_FREE);
    close(fd);
    lane_left(set);
}

static inline uint32_t now(lane *set)
{
    return __atomic_load_n(&set->now, __ATOMIC_RELAXED);
}

/* Read by lane_sweep while others own the connection. */
static inline void set_since(lane *set, lane_conn *conn)
{
    __atomic_store_n(&conn->since, now(set), __ATOMIC_RELAXED);
}

static inline uint32_t seconds_since(lane *set, lane_conn *conn)
{
    return now(set) - __atomic_load_n(&conn->since, __ATOMIC_RELAXED);
}

static inline void set_used(lane_conn *conn, uint8_t used)
{
    __atomic_store_n(&conn->used, used, __ATOMIC_RELAXED);
}

/* The epoll set */

static inline int control(lane *set, int op, int fd, uint32_t events, int key)
{
    struct epoll_event event = {.events = events, .data = {.fd = key}};

    return epoll_ctl(set->epoll_fd, op, fd, &event);
}

/* An edge is told again if there is anything to read. */
static inline void list_again(lane *set, int fd)
{
    control(set, EPOLL_CTL_MOD, fd, EDGES, fd);
}

/* From BUSY to IDLE.  Returns 0 when that cannot be: MORE has come (listed
 * is 1), or the kernel has no memory (listed is 0). */
static inline int wait_on(lane *set, int fd)
{
    lane_conn *conn = &set->conns[fd];

    if (!conn->listed) {
        if (control(set, EPOLL_CTL_ADD, fd, EDGES, fd) != 0)
            return 0;
        conn->listed = 1;
    }
    return change(conn, LANE_BUSY, LANE_IDLE);
}

/* From BUSY or MORE to IDLE: what has come meanwhile is told again.  Returns 0
 * when the connection cannot be in the set. */
static inline int go_on(lane *set, int fd)
{
    lane_conn *conn = &set->conns[fd];

    while (!wait_on(set, fd)) {
        if (!conn->listed)
            return 0;
        /* While it is ours.  If lane_poll is told before the state changes, it
         * makes MORE of it, and this begins anew. */
        give_up(conn, LANE_BUSY);
        list_again(set, fd);
    }
    return 1;
}

/* lane_poll's thread has seen a part: wait for the next.  If some of it may be
 * there already, for which no edge will come, it is told again.  Returns 0 when
 * the kernel has no memory. */
static inline int wait_for_more(lane *set, int fd, int is_there)
{
    if (is_there && set->conns[fd].listed)
        list_again(set, fd);
    return wait_on(set, fd);
}

/* Room in a batch */

static inline int has_room(const lane *set, uint32_t n, uint32_t input_len)
{
    return n < set->arrivals_cap &&
           set->input_cap - input_len >= set->read_cap &&
           set->vars_cap - set->vars_len >
               2 * set->max_head_len + 256 + PEER_LEN;
}

/* Whether octets have come that nobody has read yet. */
static inline int has_octets(int fd)
{
    char octet;

    return recv(fd, &octet, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* Close a connection that this thread has taken from IDLE to BUSY for that.
 * If it is not due, or its next octets have come, make it IDLE again instead.
 * Returns 1 when it is closed. */
static inline int drop_idle(lane *set, int fd, int is_due)
{
    if (is_due && set->conns[fd].body_left == 0 && !has_octets(fd)) {
        drop(set, fd);
        return 1;
    }
    /* Perhaps no edge is due for what is there, and nobody would ever look at
     * it. */
    list_again(set, fd);
    go_on(set, fd);
    return 0;
}

/* What one source does for another; nobody else can see it, so that no other
 * library takes its name. */

#define SHARED __attribute__((visibility("hidden")))

/* lane_read.c: returns 1 with an arrival from a connection that this thread
 * has made BUSY, or 0.  With is_urgent, the client has sent urgent data, at
 * whose mark recv() ends however much has come. */
SHARED int read_arrival(lane *set, int fd, int is_urgent, uint32_t *input_len,
                        lane_arrival *arrival);

/* lane_accept.c: accept on the listeners that are ready, at least one; add to
 * the `n` arrivals there are, and return how many there are then. */
SHARED uint32_t accept_ready(lane *set, const uint32_t *ready, uint32_t nready,
                             uint32_t n, uint32_t *input_len);

/* lane_accept.c: accept again where it was paused, if anything has changed. */
SHARED void resume_accepting(lane *set);

#endif
