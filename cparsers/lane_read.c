/* lane_read.c -- from a connection with an event to an arrival: read, parse,
 * classify; and count requests. */
#define _GNU_SOURCE /* POSIX beside C99 */
#include "lane.h"

#ifdef __linux__
#include "lane_states.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

enum { LOST = -1, FOR_LOOP = -2 }; /* of read_once */

/* Parse a head, by its connection's last field section if it is the same one.
 * A section is kept when it comes a second time: one with a field of the
 * request's own (an identifier, a time) would be copied each time in vain. */
static int parse_http(lane *set, lane_conn *conn, const char *input,
                      uint32_t len, http1_head *head)
{
    uint16_t section;
    int code;

    if (set->known == NULL)
        return http1_parse_head(input, len, 0, head);
    code = known_parse_head(&set->known[conn->section % LANE_KNOWN], input,
                            len, head);
    if (code > 0)
        return code;
    code = http1_parse_head(input, len, 0, head);
    if (code <= 0)
        return code;
    section = known_hash(input, (size_t)code);
    if (section == conn->section)
        known_keep(&set->known[section % LANE_KNOWN], input, (size_t)code,
                   head);
    conn->section = section;
    return code;
}

/* Parse the octets of one connection; the caller has set input_off and _len. */
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
        arrival->consumed = parse_http(set, &set->conns[arrival->fd], input,
                                       arrival->input_len, &head);
        arrival->content_length = head.content_length;
        arrival->vars_len = head.vars_len;
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
        arrival->nfirst = packet.nfirst;
        arrival->modifier1 = packet.modifier1;
    } else {
        scgi_head head = {.vars = vars,
                          .vars_cap = vars_cap,
                          .max_head_len = set->max_head_len,
                          .max_vars = set->max_vars};
        arrival->consumed = scgi_parse_head(input, arrival->input_len, &head);
        arrival->content_length = head.content_length;
        arrival->vars_len = head.vars_len;
        arrival->nfirst = head.nfirst;
    }
    arrival->vars_off = set->vars_len;
    if (arrival->consumed > 0 && arrival->vars_len > 0) {
        set->vars_len += arrival->vars_len;
        set->vars[set->vars_len++] = '\0';
    }
}

/* LANE_WHOLE, _BEGUN, or _LEFT for a request of the general path. */
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
        return LANE_LEFT; /* pipelined; otherwise further octets are dropped */
    return LANE_WHOLE;
}

int begin_stream(lane *set, int fd, const char *head, uint32_t len,
                 lane_arrival *arrival)
{
    static const char version[] = "HTTP/1.1";
    http1_head parsed = {.vars = set->vars + set->vars_len,
                         .vars_cap = set->vars_cap - set->vars_len,
                         .max_line_len = set->max_line_len,
                         .max_head_len = set->max_head_len,
                         .max_fields = set->max_fields};
    char *protocol;

    memset(arrival, 0, sizeof *arrival);
    arrival->consumed = parse_http(set, &set->conns[fd], head, len, &parsed);
    if (arrival->consumed != (int32_t)len ||
        parsed.content_length > set->max_body_len ||
        (parsed.flags &
         (HTTP1_CHUNKED | HTTP1_EXPECT_CONTINUE | HTTP1_WEBSOCKET)) != 0)
        return 0;
    /* The last pair before the fields; RFC 3875 4.1.16 wants a minor version. */
    protocol = parsed.vars + parsed.fields_off - sizeof version;
    if (parsed.fields_off < sizeof version ||
        memcmp(protocol, version, sizeof version) != 0)
        return 0;
    memcpy(protocol, "HTTP/2.0", 8);
    arrival->kind = LANE_WHOLE;
    arrival->listener = set->conns[fd].listener;
    arrival->content_length = parsed.content_length;
    arrival->carrier = set->conns[fd].carrier;
    arrival->flags = parsed.flags;
    arrival->vars_off = set->vars_len;
    arrival->vars_len = parsed.vars_len;
    set->vars_len += parsed.vars_len;
    set->vars[set->vars_len++] = '\0';
    return 1;
}

/* By hand: inet_ntop() and snprintf() took 255 ns for address and port, this
 * takes 25 (2026-11-26, glibc 2.36). */
static char *put_decimal(char *to, unsigned number)
{
    char digits[10];
    int n = 0;

    do
        digits[n++] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    while (n > 0)
        *to++ = digits[--n];
    return to;
}

static char *put_v4(char *to, const uint8_t *address)
{
    for (int i = 0; i < 4; i++) {
        if (i > 0)
            *to++ = '.';
        to = put_decimal(to, address[i]);
    }
    return to;
}

/* Write an address, IPv4 as such also on a socket of both families, which has
 * it as ::ffff:a.b.c.d.  Returns its end; NULL: it is none. */
static char *put_address(char *to, const struct sockaddr_storage *peer)
{
    const struct in6_addr *v6 =
        &((const struct sockaddr_in6 *)peer)->sin6_addr;
    const struct in_addr *v4 = &((const struct sockaddr_in *)peer)->sin_addr;

    if (peer->ss_family == AF_INET)
        return put_v4(to, (const uint8_t *)v4);
    if (IN6_IS_ADDR_V4MAPPED(v6))
        return put_v4(to, &v6->s6_addr[12]);
    if (inet_ntop(AF_INET6, v6, to, PEER_LEN - 6) == NULL)
        return NULL;
    return to + strlen(to);
}

/* The peer may be reset before it was accepted, and its request is there all
 * the same. */
int add_peer(lane *set, lane_arrival *arrival)
{
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    char *begin = set->vars + set->vars_len, *to;

    if (getpeername(arrival->fd, (struct sockaddr *)&peer, &size) != 0)
        return 0;
    to = put_address(begin, &peer);
    if (to == NULL)
        return 0;
    *to++ = '\0';
    /* sin_port and sin6_port are at the same place. */
    to = put_decimal(to, ntohs(((const struct sockaddr_in *)&peer)->sin_port));
    arrival->peer_off = set->vars_len;
    arrival->peer_len = (uint32_t)(to - begin);
    set->vars_len += arrival->peer_len;
    set->vars[set->vars_len++] = '\0';
    return 1;
}

/* It has filled the buffer, or ended at a descriptor that was passed over a
 * unix socket. */
ssize_t receive(lane *set, int fd, char *to, size_t cap, int *is_full)
{
    struct iovec part = {to, cap};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t got;

    if (session_of(set, fd) != NULL)
        return tls_receive(session_of(set, fd), fd, to, cap, is_full);
    if (set->listeners[set->conns[fd].listener].is_tcp)
        got = recv(fd, to, cap, 0);
    else
        got = recvmsg(fd, &message, 0);
    *is_full = got == (ssize_t)cap || (message.msg_flags & MSG_CTRUNC) != 0;
    return got;
}

/* Read once from a connection that this thread has made BUSY.  Returns the
 * number of octets; 0 when there was nothing, and it waits again; LOST when the
 * client is gone, and it is closed; FOR_LOOP: a session of TLS is broken, or
 * waits for its client, and the connection is BUSY still. */
static ssize_t read_once(lane *set, int fd, char *to, size_t cap, int *is_full)
{
    ssize_t got;

    while ((got = receive(set, fd, to, cap, is_full)) <= 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN && await_octets(set, fd, *is_full))
            return 0;
        if (got < 0 && errno == EPROTO && session_of(set, fd) != NULL &&
            set->conns[fd].body_left == 0)
            return FOR_LOOP;
        close_conn(set, fd);
        return LOST;
    }
    return got;
}

/* Classify the first octets of a request, and set the state of their
 * connection.  Returns 0 when the client is gone, and it is closed. */
static int begin_request(lane *set, lane_arrival *arrival, int is_full)
{
    lane_conn *conn = &set->conns[arrival->fd];
    const lane_listener *listener = &set->listeners[conn->listener];

    parse_arrival(set, arrival, listener->protocol);
    arrival->kind = kind_of(set, arrival, listener->protocol);
    /* A full read may have left the next request behind. */
    if (arrival->kind == LANE_WHOLE && is_full)
        arrival->kind = LANE_LEFT;
    /* `used` is set only when made BUSY.  Who shook hands knows the client. */
    arrival->is_first = !conn->used && session_of(set, arrival->fd) == NULL;
    if (arrival->kind == LANE_LEFT) {
        take_out(set, arrival->fd);
        return 1;
    }
    if (arrival->is_first && listener->is_tcp && !add_peer(set, arrival)) {
        /* Without its address it would pass for a unix socket's. */
        close_conn(set, arrival->fd);
        return 0;
    }
    set_used(conn, 1);
    set_since(set, conn);
    conn->last = listener->protocol != LANE_HTTP ||
                 !(arrival->flags & HTTP1_KEEP_ALIVE);
    if (arrival->kind == LANE_BEGUN) {
        conn->body_left = arrival->content_length -
                          (arrival->input_len - (uint32_t)arrival->consumed);
        if (!await_octets(set, arrival->fd, is_full)) {
            arrival->kind = LANE_LEFT;
            take_out(set, arrival->fd);
        }
    }
    return 1;
}

/* Find out whether a part of a body is the last. */
static void continue_body(lane *set, lane_arrival *arrival, int is_full)
{
    lane_conn *conn = &set->conns[arrival->fd];

    conn->body_left -= arrival->input_len;
    if (conn->body_left > 0) {
        arrival->kind = LANE_PART;
        await_octets(set, arrival->fd, is_full); /* it is in the set */
    } else {
        arrival->kind = LANE_DONE;
        set_since(set, conn);
        change_state(conn, LANE_BUSY,
                     LANE_MORE); /* not read beyond the body */
    }
}

int read_arrival(lane *set, int fd, int is_urgent, uint32_t *input_len,
                 lane_arrival *arrival)
{
    int is_full = 0;
    lane_conn *conn = &set->conns[fd];
    uint32_t listener = conn->listener; /* now: GONE gives up the connection */
    int is_body = conn->body_left > 0;
    size_t cap = is_body && conn->body_left < set->read_cap
                     ? (size_t)conn->body_left
                     : set->read_cap;
    ssize_t got = read_once(set, fd, set->input + *input_len, cap, &is_full);

    if (got == 0 || (got == LOST && !is_body))
        return 0;
    memset(arrival, 0, sizeof *arrival);
    arrival->fd = fd;
    arrival->listener = listener;
    arrival->input_off = *input_len;
    if (got == FOR_LOOP) {
        arrival->kind = LANE_LEFT;
        arrival->consumed = ASERVE_INCOMPLETE;
        take_out(set, fd);
        return 1;
    }
    if (got < 0) {
        arrival->kind = LANE_GONE;
        return 1;
    }
    arrival->input_len = (uint32_t)got;
    *input_len += (uint32_t)got;
    is_full |= is_urgent;
    if (is_body)
        continue_body(set, arrival, is_full);
    else
        return begin_request(set, arrival, is_full);
    return 1;
}

/* Show other processes the request of an arrival. */
static void note_in_flight(lane *set, const lane_arrival *arrival, uint64_t at)
{
    in_flight_entry *entry = &set->entries[arrival->fd];

    if (arrival->kind == LANE_WHOLE || arrival->kind == LANE_BEGUN)
        in_flight_describe(entry, set->vars + arrival->vars_off,
                           arrival->vars_len);
    if (arrival->kind == LANE_WHOLE || arrival->kind == LANE_DONE)
        in_flight_set(entry, at);
    if ((uint64_t)arrival->fd >= *set->entries_used)
        *set->entries_used = (uint64_t)arrival->fd + 1;
}

void begin_requests(lane *set, uint32_t n, uint64_t at)
{
    int32_t count = 0;

    for (uint32_t i = 0; i < n; i++) {
        const lane_arrival *arrival = &set->arrivals[i];

        if (arrival->kind == LANE_WHOLE || arrival->kind == LANE_DONE)
            count++;
        if (set->entries != NULL && arrival->kind != LANE_LEFT)
            note_in_flight(set, arrival, at);
    }
    if (count == 0)
        return;
    /* This thread is the only one to write it. */
    __atomic_store_n(&set->nrequests, set->nrequests + (uint64_t)count,
                     __ATOMIC_RELAXED);
    tell(set, LOAD_REQUEST_SHIFT, count);
}

#endif
