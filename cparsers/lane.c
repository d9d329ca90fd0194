/* lane.c -- wait, accept, read, parse; send, keep or close.
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
 * descriptor with that number.  Only the owner closes a descriptor, and
 * only while it owns the connection it does anything with it: the number may
 * be another connection's at once. */
#define _GNU_SOURCE /* accept4, epoll, eventfd */
#include "lane.h"

#include <errno.h>
#include <string.h>

#ifdef __linux__
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_EVENTS = 64,    /* taken by one epoll_wait */
    PEER_LEN = 64,      /* an address and a port as text */
    LISTENER = 1 << 30, /* + index: the key of a listener; else it is an fd */
    WAKE = 1 << 29,     /* the key of wake_fd */
    ROOM = 32           /* connections closed at once to make room */
};

/* What is told of a connection: octets, the end, urgent data; once. */
static const uint32_t EDGES = EPOLLIN | EPOLLRDHUP | EPOLLPRI | EPOLLET;

int lane_available(void)
{
    return 1;
}

/* Whether the table has a place for this descriptor: -1 has none. */
static int has(const lane *set, int fd)
{
    return (uint32_t)fd < set->conns_cap;
}

/* The states */

static int change(lane_conn *conn, uint8_t from, uint8_t to)
{
    return __atomic_compare_exchange_n(&conn->state, &from, to, 0,
                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static uint8_t state_of(lane_conn *conn)
{
    return __atomic_load_n(&conn->state, __ATOMIC_ACQUIRE);
}

static void set_state(lane_conn *conn, uint8_t state)
{
    __atomic_store_n(&conn->state, state, __ATOMIC_RELEASE);
}

/* From BUSY or MORE, which are this thread's, to another state. */
static void give_up(lane_conn *conn, uint8_t to)
{
    uint8_t state;

    do {
        while ((state = state_of(conn)) == LANE_ENDING)
            sched_yield();
    } while (!change(conn, state, to));
}

/* Close a connection that this thread has made BUSY, or found so. */
static void drop(lane *set, int fd)
{
    give_up(&set->conns[fd], LANE_FREE);
    close(fd);
    lane_left(set);
}

static uint32_t now(lane *set)
{
    return __atomic_load_n(&set->now, __ATOMIC_RELAXED);
}

/* Read by lane_sweep while others own the connection. */
static void set_since(lane *set, lane_conn *conn)
{
    __atomic_store_n(&conn->since, now(set), __ATOMIC_RELAXED);
}

static uint32_t seconds_since(lane *set, lane_conn *conn)
{
    return now(set) - __atomic_load_n(&conn->since, __ATOMIC_RELAXED);
}

static void set_used(lane_conn *conn, uint8_t used)
{
    __atomic_store_n(&conn->used, used, __ATOMIC_RELAXED);
}

/* The epoll set */

static int control(lane *set, int op, int fd, uint32_t events, int key)
{
    struct epoll_event event = {.events = events, .data = {.fd = key}};

    return epoll_ctl(set->epoll_fd, op, fd, &event);
}

/* An edge is told again if there is anything to read. */
static void list_again(lane *set, int fd)
{
    control(set, EPOLL_CTL_MOD, fd, EDGES, fd);
}

/* From BUSY to IDLE.  Returns 0 when that cannot be: MORE has come (listed
 * is 1), or the kernel has no memory (listed is 0). */
static int wait_on(lane *set, int fd)
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
static int go_on(lane *set, int fd)
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

/* Reading */

/* Parse what one connection sent; the caller has set input_off and _len. */
static void parse_arrival(lane *set, lane_arrival *arrival, uint32_t protocol)
{
    const char *input = set->input + arrival->input_off;
    char *vars = set->vars + set->vars_len;
    uint32_t vars_cap = set->vars_cap - set->vars_len;

    if (protocol == LANE_HTTP) {
        http1_head head = {.vars = vars,
                           .vars_cap = vars_cap,
                           .max_line_len = set->max_line_len,
                           .max_head_len = set->max_head_len,
                           .max_fields = set->max_fields};
        arrival->consumed =
            http1_parse_head(input, arrival->input_len, 0, &head);
        arrival->content_length = head.content_length;
        arrival->vars_len = head.vars_len;
        arrival->nvars = head.nvars;
        arrival->flags = head.flags;
    } else if (protocol == LANE_UWSGI) {
        uwsgi_packet packet = {.vars = vars,
                               .vars_cap = vars_cap,
                               .max_packet_len = set->max_head_len,
                               .max_vars = set->max_vars};
        arrival->consumed =
            uwsgi_parse_packet(input, arrival->input_len, &packet);
        /* Nobody reads the body of a call (Protocol.rst: RPC). */
        if (packet.modifier1 != UWSGI_RPC)
            arrival->content_length = packet.content_length;
        arrival->vars_len = packet.vars_len;
        arrival->nvars = packet.nvars;
        arrival->modifier1 = packet.modifier1;
    } else {
        scgi_head head = {.vars = vars,
                          .vars_cap = vars_cap,
                          .max_head_len = set->max_head_len,
                          .max_vars = set->max_vars};
        arrival->consumed = scgi_parse_head(input, arrival->input_len, &head);
        arrival->content_length = head.content_length;
        arrival->vars_len = head.vars_len;
        arrival->nvars = head.nvars;
    }
    arrival->vars_off = set->vars_len;
    if (arrival->consumed > 0 && arrival->vars_len > 0) {
        set->vars_len += arrival->vars_len;
        set->vars[set->vars_len++] = '\0';
    }
}

/* LANE_WHOLE, _BEGUN, or _LEFT for what the general path must see. */
static uint32_t kind_of(const lane *set, const lane_arrival *arrival,
                        uint32_t protocol)
{
    uint64_t len;

    if (arrival->consumed <= 0 || arrival->content_length > set->max_body_len)
        return LANE_LEFT;
    if (arrival->flags & (HTTP1_CHUNKED | HTTP1_EXPECT_CONTINUE))
        return LANE_LEFT;
    len = (uint32_t)arrival->consumed + arrival->content_length;
    if (len > arrival->input_len)
        return LANE_BEGUN;
    if (protocol == LANE_HTTP && len < arrival->input_len)
        return LANE_LEFT; /* pipelined; otherwise what follows is dropped */
    return LANE_WHOLE;
}

/* Write the peer's address and port behind the vars.  Returns 0 when it has
 * gone: reset before it was accepted, and its request is there all the same. */
static int add_peer(lane *set, lane_arrival *arrival)
{
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&peer;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&peer;
    char *to = set->vars + set->vars_len;
    const void *address;
    unsigned port;

    if (getpeername(arrival->fd, (struct sockaddr *)&peer, &size) != 0)
        return 0;
    if (peer.ss_family == AF_INET) {
        address = &v4->sin_addr;
        port = ntohs(v4->sin_port);
    } else {
        address = &v6->sin6_addr;
        port = ntohs(v6->sin6_port);
    }
    if (inet_ntop(peer.ss_family, address, to, PEER_LEN - 6) == NULL)
        return 0;
    size = (socklen_t)strlen(to) + 1;
    size += (socklen_t)snprintf(to + size, 6, "%u", port);
    arrival->peer_off = set->vars_len;
    arrival->peer_len = size;
    set->vars_len += size;
    set->vars[set->vars_len++] = '\0';
    return 1;
}

/* recv() that tells when it may have left something behind: it has filled the
 * buffer, or ended at a descriptor that was passed over a unix socket. */
static ssize_t receive(lane *set, int fd, char *to, size_t cap, int *is_full)
{
    struct iovec part = {to, cap};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t got;

    if (set->listeners[set->conns[fd].listener].is_tcp)
        got = recv(fd, to, cap, 0);
    else
        got = recvmsg(fd, &message, 0);
    *is_full = got == (ssize_t)cap || (message.msg_flags & MSG_CTRUNC) != 0;
    return got;
}

/* Read once from a connection that this thread has made BUSY.  Returns the
 * number of octets; 0 when there was nothing, and it is IDLE again; -1 when
 * the client is gone, and it is closed. */
static ssize_t read_once(lane *set, int fd, char *to, size_t cap, int *is_full)
{
    ssize_t got;

    while ((got = receive(set, fd, to, cap, is_full)) <= 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN && wait_on(set, fd))
            return 0;
        drop(set, fd);
        return -1;
    }
    return got;
}

/* lane_poll's thread has seen a part: wait for the next.  If some of it may be
 * there already, for which no edge will come, it is told again.  Returns 0 when
 * the kernel has no memory. */
static int wait_for_more(lane *set, int fd, int is_there)
{
    if (is_there && set->conns[fd].listed)
        list_again(set, fd);
    return wait_on(set, fd);
}

/* Returns 0 when the client is gone, and the connection is closed. */
static int take_head(lane *set, lane_arrival *arrival, int is_full)
{
    lane_conn *conn = &set->conns[arrival->fd];
    const lane_listener *listener = &set->listeners[conn->listener];

    parse_arrival(set, arrival, listener->protocol);
    arrival->kind = kind_of(set, arrival, listener->protocol);
    /* A full read may have left the next request behind. */
    if (arrival->kind == LANE_WHOLE && is_full)
        arrival->kind = LANE_LEFT;
    if (arrival->kind == LANE_LEFT) {
        lane_release(set, arrival->fd);
        return 1;
    }
    arrival->is_first = !conn->used; /* set only by who makes it BUSY */
    if (arrival->is_first && listener->is_tcp && !add_peer(set, arrival)) {
        /* Without its address it would pass for a unix socket's. */
        drop(set, arrival->fd);
        return 0;
    }
    set_used(conn, 1);
    conn->last = listener->protocol != LANE_HTTP ||
                 !(arrival->flags & HTTP1_KEEP_ALIVE);
    if (arrival->kind == LANE_BEGUN) {
        conn->body_left = arrival->content_length -
                          (arrival->input_len - (uint32_t)arrival->consumed);
        if (!wait_for_more(set, arrival->fd, is_full)) {
            arrival->kind = LANE_LEFT;
            lane_release(set, arrival->fd);
        }
    }
    return 1;
}

static void take_part(lane *set, lane_arrival *arrival, int is_full)
{
    lane_conn *conn = &set->conns[arrival->fd];

    conn->body_left -= arrival->input_len;
    if (conn->body_left > 0) {
        arrival->kind = LANE_PART;
        wait_for_more(set, arrival->fd, is_full); /* it is in the set */
    } else {
        arrival->kind = LANE_DONE;
        change(conn, LANE_BUSY, LANE_MORE); /* not read beyond the body */
    }
}

/* Returns 1 with an arrival from a connection that this thread has made BUSY,
 * or 0.  With is_urgent, the client has sent urgent data, at whose mark recv()
 * ends however much has come. */
static int take(lane *set, int fd, int is_urgent, uint32_t *input_len,
                lane_arrival *arrival)
{
    int is_full = 0;
    lane_conn *conn = &set->conns[fd];
    int is_body = conn->body_left > 0;
    size_t cap = is_body && conn->body_left < set->read_cap
                     ? (size_t)conn->body_left
                     : set->read_cap;
    ssize_t got = read_once(set, fd, set->input + *input_len, cap, &is_full);

    if (got == 0 || (got < 0 && !is_body))
        return 0;
    memset(arrival, 0, sizeof *arrival);
    arrival->fd = fd;
    arrival->listener = conn->listener;
    arrival->input_off = *input_len;
    if (got < 0) {
        arrival->kind = LANE_GONE;
        return 1;
    }
    arrival->input_len = (uint32_t)got;
    *input_len += (uint32_t)got;
    is_full |= is_urgent;
    if (is_body)
        take_part(set, arrival, is_full);
    else
        return take_head(set, arrival, is_full);
    return 1;
}

static int has_room(const lane *set, uint32_t n, uint32_t input_len)
{
    return n < set->arrivals_cap &&
           set->input_cap - input_len >= set->read_cap &&
           set->vars_cap - set->vars_len >
               2 * set->max_head_len + 256 + PEER_LEN;
}

/* Take a listener out of the epoll set; accepting may go on. */
static void unlist(lane *set, uint32_t i)
{
    control(set, EPOLL_CTL_DEL, set->listeners[i].fd, 0, 0);
}

/* Whether octets have come that nobody has read yet. */
static int has_octets(int fd)
{
    char octet;

    return recv(fd, &octet, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* Holding: the limit of connections, and of descriptors */

static uint32_t count_conns(lane *set)
{
    return __atomic_load_n(&set->nconns, __ATOMIC_SEQ_CST) +
           __atomic_load_n(&set->nothers, __ATOMIC_RELAXED);
}

static int is_full(lane *set)
{
    return count_conns(set) >=
           __atomic_load_n(&set->max_conns, __ATOMIC_RELAXED);
}

/* Leave who comes to the kernel for a while. */
static void hold(lane *set, uint32_t i, uint32_t *count)
{
    __atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
    unlist(set, i);
    set->listeners[i].is_held = 1;
    set->held_conns = count_conns(set);
    set->held_at = now(set);
    /* Before the next look at nconns: see lane_left. */
    __atomic_store_n(&set->is_held, 1, __ATOMIC_SEQ_CST);
}

/* Let those in again who were held, if anything has changed. */
static void let_in(lane *set)
{
    if (count_conns(set) >= set->held_conns && now(set) == set->held_at)
        return;
    __atomic_store_n(&set->is_held, 0, __ATOMIC_SEQ_CST);
    /* As in lane_poll: is_off is looked at only where lane_unlisten waits. */
    __atomic_store_n(&set->is_accepting, 1, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < set->nlisteners; i++) {
        lane_listener *listener = &set->listeners[i];

        if (!listener->is_held)
            continue;
        listener->is_held = 0;
        if (!__atomic_load_n(&listener->is_off, __ATOMIC_SEQ_CST))
            control(set, EPOLL_CTL_ADD, listener->fd, EPOLLIN,
                    LISTENER | (int)i);
    }
    __atomic_store_n(&set->is_accepting, 0, __ATOMIC_SEQ_CST);
}

/* For how many seconds a connection has waited for another request. */
static uint32_t idle_seconds(lane *set, lane_conn *conn)
{
    if (state_of(conn) != LANE_IDLE ||
        !__atomic_load_n(&conn->used, __ATOMIC_RELAXED))
        return 0;
    return seconds_since(set, conn);
}

int lane_make_room(lane *set)
{
    uint32_t top = __atomic_load_n(&set->top, __ATOMIC_RELAXED);
    uint32_t longest = 0;
    int count = 0;

    for (uint32_t fd = 0; fd < top; fd++) {
        uint32_t seconds = idle_seconds(set, &set->conns[fd]);

        if (seconds > longest)
            longest = seconds;
    }
    if (longest < 2) /* two ticks: a second at least */
        return 0;
    for (uint32_t fd = 0; fd < top && count < ROOM; fd++) {
        lane_conn *conn = &set->conns[fd];

        if (idle_seconds(set, conn) < longest ||
            !change(conn, LANE_IDLE, LANE_BUSY))
            continue;
        /* Once more, as in lane_sweep. */
        if (conn->body_left == 0 && seconds_since(set, conn) >= longest &&
            !has_octets((int)fd)) {
            drop(set, (int)fd);
            count++;
        } else {
            /* Perhaps no edge is due for what is there, and nobody would
             * ever look at it. */
            list_again(set, (int)fd);
            go_on(set, (int)fd);
        }
    }
    return count;
}

/* The same, but looked for in vain at most once a second. */
static int make_room(lane *set)
{
    if (set->no_room_at == now(set))
        return 0;
    if (lane_make_room(set))
        return 1;
    set->no_room_at = now(set);
    return 0;
}

/* lane_left takes it back. */
static void count_one(lane *set)
{
    __atomic_add_fetch(&set->nconns, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&set->nusers, 1, __ATOMIC_RELAXED);
}

/* A connection that this thread has just made BUSY is all new. */
static void begin(lane *set, int fd, uint32_t listener, uint8_t used)
{
    lane_conn *conn = &set->conns[fd];
    uint32_t top = __atomic_load_n(&set->top, __ATOMIC_RELAXED);

    conn->listener = (uint16_t)listener;
    conn->listed = 0;
    set_used(conn, used);
    conn->body_left = 0;
    set_since(set, conn);
    /* lane_poll's thread and lane_adopt's may both raise it. */
    while ((uint32_t)fd >= top &&
           !__atomic_compare_exchange_n(&set->top, &top, (uint32_t)fd + 1, 0,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* Accept until there is nobody, or no room; read from each at once.  No more
 * than a batch, though nobody has sent anything yet: others wait, too. */
static uint32_t accept_from(lane *set, uint32_t i, uint32_t n,
                            uint32_t *input_len)
{
    int is_awaited = 1; /* the epoll set has told so */

    for (uint32_t count = 0;
         count < set->arrivals_cap && has_room(set, n, *input_len); count++) {
        int fd;

        if (is_full(set) && (!is_awaited || !make_room(set))) {
            if (is_awaited)
                hold(set, i, &set->nfull);
            break;
        }
        is_awaited = 0;
        fd = accept4(set->listeners[i].fd, NULL, NULL,
                     SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            /* accept(2); it would be told again at once, and in vain. */
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
                errno == ENOMEM)
                hold(set, i, &set->nshort);
            break;
        }
        count_one(set);
        if (!has(set, fd)) {
            /* More than the table holds: the caller's, unread. */
            lane_arrival *arrival = &set->arrivals[n++];
            memset(arrival, 0, sizeof *arrival);
            arrival->fd = fd;
            arrival->listener = i;
            arrival->input_off = *input_len;
            arrival->consumed = ASERVE_INCOMPLETE;
            continue;
        }
        __atomic_exchange_n(&set->conns[fd].state, LANE_BUSY,
                            __ATOMIC_ACQ_REL);
        begin(set, fd, i, 0);
        /* Not in the epoll set yet: what a read leaves is told on the way in. */
        if (take(set, fd, 0, input_len, &set->arrivals[n]))
            n++;
    }
    return n;
}

/* Waiting */

static uint64_t clock_us(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000 + (uint64_t)at.tv_nsec / 1000;
}

/* Let stall_fd tell when stall_us are over, but not before.  A timer that is
 * late enough stays: each change is a trap of a virtual machine, and made for
 * each request they were a fifth of its price (2026-11-21, 1 connection). */
static void set_stall(lane *set)
{
    uint64_t soonest = clock_us() + set->stall_us;
    uint64_t latest = soonest + set->stall_us;
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(latest / 1000000),
                     .tv_nsec = (long)(latest % 1000000) * 1000}};

    if (set->stall_at >= soonest)
        return;
    set->stall_at = latest;
    timerfd_settime(set->stall_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* Accept on the listeners that are ready. */
static uint32_t accept_ready(lane *set, const uint32_t *ready, uint32_t nready,
                             uint32_t n, uint32_t *input_len)
{
    if (nready == 0)
        return n;
    /* Either this thread sees is_off, or lane_unlisten sees this. */
    __atomic_store_n(&set->is_accepting, 1, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < nready; i++)
        if (!__atomic_load_n(&set->listeners[ready[i]].is_off,
                             __ATOMIC_SEQ_CST))
            n = accept_from(set, ready[i], n, input_len);
    __atomic_store_n(&set->is_accepting, 0, __ATOMIC_SEQ_CST);
    return n;
}

/* Make a connection BUSY on which something has come.  Returns 0 when it has
 * an owner already, who is told, or is no more. */
static int get_hold(lane_conn *conn)
{
    uint8_t state;

    do {
        if (change(conn, LANE_IDLE, LANE_BUSY))
            return 1;
        if (change(conn, LANE_BUSY, LANE_MORE))
            return 0;
        state = state_of(conn);
    } while (state == LANE_IDLE || state == LANE_BUSY); /* just now */
    return 0;
}

/* Read from a connection on which something has come.  The event may be of an
 * earlier connection with this number: then nothing has come. */
static uint32_t take_ready(lane *set, const struct epoll_event *event,
                           uint32_t n, uint32_t *input_len)
{
    int fd = event->data.fd;
    lane_conn *conn = &set->conns[fd];

    if (!get_hold(conn))
        return n;
    if (!has_room(set, n, *input_len)) {
        wait_for_more(set, fd, 1);
    } else if (take(set, fd, (event->events & EPOLLPRI) != 0, input_len,
                    &set->arrivals[n])) {
        n++;
        /* The end has come already, and no edge will tell it. */
        if (event->events & (EPOLLRDHUP | EPOLLHUP) && get_hold(conn))
            wait_for_more(set, fd, 1);
    }
    return n;
}

int lane_poll(lane *set, int timeout_ms)
{
    struct epoll_event events[MAX_EVENTS];
    uint32_t n = 0, input_len = 0, ready[MAX_EVENTS], nready = 0;
    uint32_t is_accept_due = set->is_accept_due;
    uint64_t ignored;
    int nevents, nconns = 0, is_woken = 0;

    set->vars_len = 0;
    if (set->is_held)
        let_in(set);
    __atomic_store_n(&set->is_waiting, 1, __ATOMIC_RELAXED);
    nevents = epoll_wait(set->epoll_fd, events, MAX_EVENTS, timeout_ms);
    __atomic_store_n(&set->is_waiting, 0, __ATOMIC_RELAXED);
    for (int i = 0; i < nevents; i++) {
        int key = events[i].data.fd;

        if (key & LISTENER)
            ready[nready++] = (uint32_t)(key & ~LISTENER);
        else if (key & WAKE) /* it may have been read by an earlier call */
            is_woken = read(set->wake_fd, &ignored, sizeof ignored) > 0;
        else
            events[nconns++] = events[i];
    }
    /* Connections first: they have waited longer.  But busy ones must not keep
     * out new ones for ever. */
    if (is_accept_due)
        n = accept_ready(set, ready, nready, n, &input_len);
    for (int i = 0; i < nconns; i++)
        n = take_ready(set, &events[i], n, &input_len);
    if (!is_accept_due)
        n = accept_ready(set, ready, nready, n, &input_len);
    if (nready > 0)
        set->is_accept_due = !is_accept_due && !has_room(set, n, input_len);
    if ((n > 0 || is_woken) && set->stall_us > 0)
        set_stall(set);
    return (int)n;
}

void lane_wake(lane *set)
{
    const uint64_t one = 1;

    if (write(set->wake_fd, &one, sizeof one) < 0)
        return; /* it is full of wakes already */
}

/* Replying */

int lane_reply(lane *set, int fd, const char *head, uint32_t head_len,
               const char *body, uint32_t body_len, int keep)
{
    uint32_t len = head_len + body_len;
    struct iovec parts[2] = {{(void *)(uintptr_t)head, head_len},
                             {(void *)(uintptr_t)body, body_len}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    lane_conn *conn;
    uint8_t state;
    ssize_t took;

    if (!has(set, fd))
        return (int)len;
    conn = &set->conns[fd];
    state = state_of(conn);
    if (state == LANE_FREE || state == LANE_IDLE)
        return (int)len; /* no reply is due */
    /* RFC 9112 9.6: a close with octets unread would reset the connection. */
    if (!keep && (!conn->last || (state == LANE_MORE && has_octets(fd))))
        return -1;
    if (body_len == 0)
        took = send(fd, head, head_len, MSG_NOSIGNAL | MSG_DONTWAIT);
    else
        took = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (took < 0 && errno != EAGAIN && errno != EINTR) {
        drop(set, fd);
        return (int)len;
    }
    if (took != (ssize_t)len)
        return took > 0 ? (int)took : 0;
    if (!keep) {
        drop(set, fd);
        return (int)len;
    }
    set_since(set, conn);
    if (!go_on(set, fd)) {
        drop(set, fd);
        return (int)len;
    }
    /* Either this thread sees is_closed, or lane_close sees IDLE. */
    if (__atomic_load_n(&set->is_closed, __ATOMIC_SEQ_CST) &&
        change(conn, LANE_IDLE, LANE_BUSY))
        drop(set, fd);
    return (int)len;
}

int lane_release(lane *set, int fd)
{
    lane_conn *conn;
    uint8_t state;

    if (!has(set, fd))
        return 0;
    conn = &set->conns[fd];
    state = state_of(conn);
    if (state == LANE_FREE || state == LANE_IDLE)
        return 0;
    if (__atomic_load_n(&set->is_closed, __ATOMIC_SEQ_CST)) {
        drop(set, fd);
        return 0;
    }
    if (conn->listed)
        control(set, EPOLL_CTL_DEL, fd, 0, fd);
    give_up(conn, LANE_FREE);
    return 1;
}

int lane_hold(lane *set, int fd)
{
    if (!has(set, fd) || !change(&set->conns[fd], LANE_IDLE, LANE_BUSY))
        return 0;
    if (set->conns[fd].body_left > 0)
        return 1;
    go_on(set, fd);
    return 0;
}

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* The last who is in the lane, or leaves it, closes the lane's own. */
static void end_use(lane *set)
{
    if (__atomic_sub_fetch(&set->nusers, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    close_one(&set->stall_fd);
    close_one(&set->wake_fd);
    close_one(&set->epoll_fd);
}

void lane_left(lane *set)
{
    __atomic_sub_fetch(&set->nconns, 1, __ATOMIC_SEQ_CST);
    /* Either this thread sees is_held, or let_in sees the lower count. */
    if (__atomic_load_n(&set->is_held, __ATOMIC_SEQ_CST))
        lane_wake(set);
    end_use(set);
}

int lane_adopt(lane *set, int fd, uint32_t i)
{
    if (!has(set, fd) || i >= set->nlisteners || set->is_closed ||
        set->listeners[i].is_off || set->listeners[i].protocol != LANE_HTTP ||
        !change(&set->conns[fd], LANE_FREE, LANE_BUSY))
        return 0;
    count_one(set);
    begin(set, fd, i, 1);
    /* The set tells what is there already when it gets a descriptor. */
    if (go_on(set, fd))
        return 1;
    give_up(&set->conns[fd], LANE_FREE);
    lane_left(set);
    return 0;
}

static int is_overdue(lane *set, lane_conn *conn, int used_seconds,
                      int new_seconds)
{
    int seconds = __atomic_load_n(&conn->used, __ATOMIC_RELAXED) ? used_seconds
                                                                 : new_seconds;

    return seconds < 0 || seconds_since(set, conn) > (uint32_t)seconds;
}

int lane_sweep(lane *set, int used_seconds, int new_seconds)
{
    uint32_t top = __atomic_load_n(&set->top, __ATOMIC_RELAXED);
    int count = 0;

    for (uint32_t fd = 0; fd < top; fd++) {
        lane_conn *conn = &set->conns[fd];

        if (state_of(conn) != LANE_IDLE ||
            !is_overdue(set, conn, used_seconds, new_seconds) ||
            !change(conn, LANE_IDLE, LANE_BUSY))
            continue;
        /* Once more: it may have carried a request since the line above. */
        if (conn->body_left == 0 &&
            is_overdue(set, conn, used_seconds, new_seconds) &&
            !has_octets((int)fd)) {
            drop(set, (int)fd);
            count++;
        } else {
            /* Perhaps no edge is due for what is there, and nobody would
             * ever look at it. */
            list_again(set, (int)fd);
            go_on(set, (int)fd);
        }
    }
    return count;
}

/* Beginning and end */

void lane_unlisten(lane *set, uint32_t i)
{
    __atomic_store_n(&set->listeners[i].is_off, 1, __ATOMIC_SEQ_CST);
    unlist(set, i);
    while (__atomic_load_n(&set->is_accepting, __ATOMIC_SEQ_CST))
        sched_yield(); /* at most one batch: about a millisecond */
    unlist(set, i);    /* let_in may have listed it meanwhile */
}

int lane_open(lane *set)
{
    const int yes = 1;

    set->is_closed = 0;
    set->nusers = 1; /* until lane_close */
    set->wake_fd = set->stall_fd = -1;
    set->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (set->epoll_fd < 0)
        return errno;
    set->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (set->wake_fd < 0)
        return errno;
    set->stall_fd =
        timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (set->stall_fd < 0)
        return errno;
    if (control(set, EPOLL_CTL_ADD, set->wake_fd, EPOLLIN, WAKE) != 0)
        return errno;
    for (uint32_t i = 0; i < set->nlisteners; i++) {
        /* Inherited by what is accepted. */
        if (set->listeners[i].is_tcp)
            setsockopt(set->listeners[i].fd, IPPROTO_TCP, TCP_NODELAY, &yes,
                       sizeof yes);
        if (control(set, EPOLL_CTL_ADD, set->listeners[i].fd, EPOLLIN,
                    LISTENER | (int)i) != 0)
            return errno;
    }
    return 0;
}

/* Close a connection, or show its client the end: then its owner closes. */
static void end(lane *set, int fd)
{
    lane_conn *conn = &set->conns[fd];

    while (state_of(conn) != LANE_FREE) {
        if (change(conn, LANE_IDLE, LANE_BUSY)) {
            drop(set, fd);
        } else if (change(conn, LANE_BUSY, LANE_ENDING) ||
                   change(conn, LANE_MORE, LANE_ENDING)) {
            shutdown(fd, SHUT_RDWR);
            set_state(conn, LANE_MORE);
            return;
        }
    }
}

void lane_close(lane *set)
{
    if (set->is_closed)
        return;
    __atomic_store_n(&set->is_closed, 1, __ATOMIC_SEQ_CST);
    for (uint32_t fd = 0; fd < set->top; fd++)
        end(set, (int)fd);
    end_use(set);
}

#else

int lane_available(void)
{
    return 0;
}

int lane_open(lane *set)
{
    (void)set;
    return ENOSYS;
}

void lane_close(lane *set)
{
    (void)set;
}

void lane_unlisten(lane *set, uint32_t i)
{
    (void)set;
    (void)i;
}

int lane_poll(lane *set, int timeout_ms)
{
    (void)set;
    (void)timeout_ms;
    return 0;
}

void lane_wake(lane *set)
{
    (void)set;
}

int lane_reply(lane *set, int fd, const char *head, uint32_t head_len,
               const char *body, uint32_t body_len, int keep)
{
    (void)set;
    (void)fd;
    (void)head;
    (void)head_len;
    (void)body;
    (void)body_len;
    (void)keep;
    return -1;
}

int lane_release(lane *set, int fd)
{
    (void)set;
    (void)fd;
    return 0;
}

int lane_hold(lane *set, int fd)
{
    (void)set;
    (void)fd;
    return 0;
}

void lane_left(lane *set)
{
    (void)set;
}

int lane_adopt(lane *set, int fd, uint32_t i)
{
    (void)set;
    (void)fd;
    (void)i;
    return 0;
}

int lane_sweep(lane *set, int used_seconds, int new_seconds)
{
    (void)set;
    (void)used_seconds;
    (void)new_seconds;
    return 0;
}

int lane_make_room(lane *set)
{
    (void)set;
    return 0;
}

#endif
