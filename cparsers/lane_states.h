/* lane_states.h -- the states of a lane's connections, and its epoll set,
 * shared by the sources of the lane.  Never part of an interface to Python.
 *
 * Connections are in the epoll set edge-triggered, so that a request costs no
 * call but recv and send: an edge that comes while a request is with the
 * caller is remembered in the state (MORE), and brought back by lane_reply.
 * A connection whose first read gives a whole request joins the set only when
 * it is kept; one that carries a single request never does.  Listeners are
 * level-triggered: clients that a full batch leaves are reported again.
 *
 * A state changes by compare-and-swap.  IDLE belongs to the first of lane_poll,
 * lane_sweep, lane_evict_idle, lane_release_idle, _shaking and _carrier, and
 * lane_close; BODY to lane_poll and lane_own, which one thread calls, and to
 * lane_close; BUSY and MORE belong to the caller, but that lane_poll makes MORE
 * of BUSY; FREE belongs to the holder of the descriptor with that number.  Only
 * the owner closes a descriptor, and it uses the descriptor only while it owns
 * the connection: the number may be another connection's at once. */
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
    WAKE = 1 << 29,     /* the key of wake_fd */
    REST = 1 << 28      /* the key of rest_fd */
};

/* The events of a connection: octets, the end, urgent data; once. */
static const uint32_t EDGES = EPOLLIN | EPOLLRDHUP | EPOLLPRI | EPOLLET;

/* Whether the table has a place for this descriptor: -1 has none. */
static inline int is_in_table(const lane *set, int fd)
{
    return (uint32_t)fd < set->conns_cap;
}

/* The states */

static inline int change_state(lane_conn *conn, uint8_t from, uint8_t to)
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

/* Make a connection BUSY that waits for octets: IDLE or BODY. */
static inline int own_waiting(lane_conn *conn)
{
    return change_state(conn, LANE_IDLE, LANE_BUSY) ||
           change_state(conn, LANE_BODY, LANE_BUSY);
}

/* Whether no caller has a connection: it waits for octets, or there is none. */
static inline int is_unowned(lane_conn *conn)
{
    uint8_t state = state_of(conn);

    return state == LANE_FREE || state == LANE_IDLE || state == LANE_BODY;
}

/* Change BUSY or MORE, which are this thread's, to another state. */
static inline void leave_busy(lane_conn *conn, uint8_t to)
{
    uint8_t state;

    do {
        while ((state = state_of(conn)) == LANE_ENDING)
            sched_yield();
    } while (!change_state(conn, state, to));
}

/* The numbers for other processes */

static inline void tell(lane *set, uint32_t shift, int32_t count)
{
    if (set->board != NULL)
        load_board_add(set->board, shift, count);
}

/* The caller is done with the request of a connection that it has BUSY. */
static inline void end_request(lane *set, int fd)
{
    tell(set, LOAD_REQUEST_SHIFT, -1);
    if (set->entries != NULL)
        in_flight_set(&set->entries[fd], 0);
}

/* TLS */

/* The session of a connection that this thread owns; NULL: it is not of TLS. */
static inline tls_session *session_of(const lane *set, int fd)
{
    return set->sessions != NULL ? set->sessions[fd] : NULL;
}

static inline tls_session *take_session(lane *set, int fd)
{
    tls_session *session = session_of(set, fd);

    if (session != NULL)
        set->sessions[fd] = NULL;
    return session;
}

/* HTTP/2 */

/* The number of the carrier that a connection is, or that carries a stream. */
static inline int carrier_at(const lane *set, int fd)
{
    return (int)__atomic_load_n(&set->conns[fd].carrier, __ATOMIC_RELAXED);
}

static inline int is_stream(const lane *set, int number)
{
    return set->h2 != NULL && (uint32_t)number >= set->first_stream;
}

/* lane_h2.c: say goodbye, before this thread closes a carrier that it owns. */
__attribute__((visibility("hidden"))) void end_carrier(lane *set, int fd);

/* lane_h2.c: as close_idle. */
__attribute__((visibility("hidden"))) int close_idle_carrier(lane *set, int fd,
                                                             int is_due);

/* lane_h2.c: whether octets have come that are not HTTP/2's yet. */
__attribute__((visibility("hidden"))) int has_carrier_left(const lane *set,
                                                           int fd);

/* Close a connection that this thread has made BUSY, or found so.  Of TLS the
 * client hears of it (RFC 8446 6.1), if the socket has room. */
static inline void close_conn(lane *set, int fd)
{
    tls_session *session;

    if (carrier_at(set, fd) != 0)
        end_carrier(set, fd);
    session = take_session(set, fd);
    if (session != NULL) {
        tls_shut(session);
        tls_flush(session, fd);
        tls_end(session);
    }
    leave_busy(&set->conns[fd], LANE_FREE);
    close(fd);
    lane_left(set);
}

static inline uint32_t now(lane *set)
{
    return __atomic_load_n(&set->now, __ATOMIC_RELAXED);
}

/* Record when it becomes IDLE, or has a request: lane_sweep reads it without
 * owning it. */
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

/* Whether it is in the handshake: lane_sweep reads it without owning it. */
static inline int is_shaking(lane_conn *conn)
{
    return __atomic_load_n(&conn->shaking, __ATOMIC_RELAXED);
}

static inline void set_shaking(lane_conn *conn, uint8_t shaking)
{
    __atomic_store_n(&conn->shaking, shaking, __ATOMIC_RELAXED);
}

/* The epoll set */

static inline int control_epoll(lane *set, int op, int fd, uint32_t events,
                                int key)
{
    struct epoll_event event = {.events = events, .data = {.fd = key}};

    return epoll_ctl(set->epoll_fd, op, fd, &event);
}

/* The events to wait for.  No edge will come for octets that were read from
 * the socket already; that the socket is writable is one. */
static inline uint32_t edges_of(const lane *set, int fd)
{
    const tls_session *session = session_of(set, fd);

    return (session != NULL &&
            (tls_has_input(session) || tls_out_len(session) > 0)) ||
                   has_carrier_left(set, fd)
               ? EDGES | EPOLLOUT
               : EDGES;
}

/* Have the edge reported again, if there is anything to read. */
static inline void rearm(lane *set, int fd)
{
    control_epoll(set, EPOLL_CTL_MOD, fd, edges_of(set, fd), fd);
}

/* Change BUSY to IDLE, or to BODY.  Returns 0 when that cannot be: MORE has
 * come (listed is 1), or the kernel has no memory (listed is 0). */
static inline int try_idle(lane *set, int fd)
{
    lane_conn *conn = &set->conns[fd];

    if (!conn->listed) {
        if (control_epoll(set, EPOLL_CTL_ADD, fd, edges_of(set, fd), fd) != 0)
            return 0;
        conn->listed = 1;
    }
    return change_state(conn, LANE_BUSY,
                        conn->body_left > 0 ? LANE_BODY : LANE_IDLE);
}

/* Change BUSY or MORE to IDLE, and have octets reported that came meanwhile.
 * Returns 0 when the connection cannot be in the set. */
static inline int make_idle(lane *set, int fd)
{
    lane_conn *conn = &set->conns[fd];

    while (!try_idle(set, fd)) {
        if (!conn->listed)
            return 0;
        /* While it is ours.  If lane_poll gets the event before the state
         * changes, it makes MORE of it, and this begins anew. */
        leave_busy(conn, LANE_BUSY);
        rearm(set, fd);
    }
    return 1;
}

/* Change BUSY to IDLE when lane_poll's thread has read a part, or may not read
 * now.  With is_there, more may have come, for which no edge will come: have
 * it reported again.  Returns 0 when that is impossible; see try_idle. */
static inline int await_octets(lane *set, int fd, int is_there)
{
    if (is_there && set->conns[fd].listed)
        rearm(set, fd);
    return try_idle(set, fd);
}

/* Room in a batch */

static inline int has_batch_room(const lane *set, uint32_t n,
                                 uint32_t input_len)
{
    return n < set->arrivals_cap &&
           set->input_cap - input_len >= set->read_cap &&
           set->vars_cap - set->vars_len >
               2 * set->max_head_len + 256 + PEER_LEN;
}

/* Whether octets have come that are not read yet. */
static inline int has_octets(const lane *set, int fd)
{
    const tls_session *session = session_of(set, fd);
    char octet;

    return (session != NULL && tls_has_input(session)) ||
           recv(fd, &octet, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* lane_h2_read.c: read from a carrier that this thread has made BUSY; returns the
 * number of arrivals that there are then. */
__attribute__((visibility("hidden"))) uint32_t
read_carrier(lane *set, int fd, int is_at_end, uint32_t n,
             uint32_t *input_len);

/* Close a connection that this thread has taken from IDLE to BUSY for that.
 * If it is not due, or its next octets have come, make it IDLE again instead.
 * Returns 1 when it is closed. */
static inline int close_idle(lane *set, int fd, int is_due)
{
    if (carrier_at(set, fd) != 0)
        return close_idle_carrier(set, fd, is_due);
    if (is_due && !has_octets(set, fd)) {
        close_conn(set, fd);
        return 1;
    }
    /* Perhaps no edge is due for the octets that are there, and no thread would
     * ever read them. */
    rearm(set, fd);
    make_idle(set, fd);
    return 0;
}

/* Functions of one source for another; not visible outside, so that no other
 * library takes their names. */

#define SHARED __attribute__((visibility("hidden")))

/* lane.c: take a connection that this thread has made BUSY out of the lane. */
SHARED void take_out(lane *set, int fd);

/* lane_read.c: returns 1 with an arrival from a connection that this thread
 * has made BUSY, or 0.  With is_urgent, the client has sent urgent data, at
 * whose mark recv() ends however much has come. */
SHARED int read_arrival(lane *set, int fd, int is_urgent, uint32_t *input_len,
                        lane_arrival *arrival);

/* lane_read.c: write the peer's address and port after the vars.  Returns 0
 * when it has gone. */
SHARED int add_peer(lane *set, lane_arrival *arrival);

/* lane_shake.c: go on with the handshake of a connection that this thread has
 * made BUSY.  Returns 1 with an arrival, or 0. */
SHARED int shake(lane *set, int fd, lane_arrival *arrival);

/* lane_shake.c: the lane is closed. */
SHARED void drop_contexts(lane *set);

/* lane_read.c: an arrival from a head of HTTP/1.1 that says the same as the
 * stream's.  Returns 0 when it is not plain. */
SHARED int begin_stream(lane *set, int fd, const char *head, uint32_t len,
                        lane_arrival *arrival);

/* lane_read.c: as recv(), of any connection; *is_full: it may have left octets
 * behind.  lane.c: send the parts, or as much of them as the socket takes. */
SHARED ssize_t receive(lane *set, int fd, char *to, size_t cap, int *is_full);
SHARED ssize_t send_parts(lane *set, int fd, const struct iovec *parts,
                          size_t count, int is_last);

/* lane_h2_streams.c: as lane_send, lane_reply, lane_release, lane_has_left. */
SHARED int64_t send_stream(lane *set, int number, const struct iovec *parts,
                           int count);
SHARED int reply_stream(lane *set, int number, const struct iovec *parts,
                        int count);
SHARED int release_stream(lane *set, int number);
SHARED int has_stream_left(lane *set, int number);

/* lane_h2_streams.c: send what replies have left, if there is anything. */
SHARED void flush_carriers(lane *set);

/* lane_h2_bodies.c: add the responses that have ended to the `n` arrivals there
 * are, and return how many there are then; whether there are some. */
SHARED uint32_t add_ended(lane *set, uint32_t n);
SHARED int has_ended(const lane *set);

/* lane.c: a request was answered; and let stall_fd signal. */
SHARED void tell_progress(lane *set);
SHARED void arm_stall_timer(lane *set);

/* lane_accept.c: count a connection until lane_left; whether there may be no
 * more; and list a connection with a session. */
SHARED void count_conn(lane *set);
SHARED int has_no_place(lane *set);
SHARED int adopt(lane *set, int fd, uint32_t i, tls_session *session,
                 int is_used, int carrier);

/* lane_read.c: count the requests among `n` arrivals, and record their targets
 * and the time, in microseconds. */
SHARED void begin_requests(lane *set, uint32_t n, uint64_t at);

/* lane_accept.c: accept on the listeners that are ready, at least one; add to
 * the `n` arrivals there are, and return how many there are then. */
SHARED uint32_t accept_ready(lane *set, const uint32_t *ready, uint32_t nready,
                             uint32_t n, uint32_t *input_len);

/* lane_accept.c: accept again where it was paused, if anything has changed. */
SHARED void resume_accepting(lane *set);

/* lane_accept.c: accept again where it was left to other processes. */
SHARED void end_rest(lane *set);

#endif
