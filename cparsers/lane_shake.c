/* lane_shake.c -- handshakes of TLS: connections that are accepted, until their
 * first request.  A handshake that goes well, and at once, is all that C
 * understands: with the first fault, or for another protocol than HTTP/1.x, a
 * connection is LEFT, and the event loop goes on, or begins anew with the same
 * octets.  HTTP/2 comes back by lane_adopt_carrier. */
#define _GNU_SOURCE /* POSIX beside C99 */
#include "lane.h"

#ifdef __linux__
#include "lane_states.h"

#include <string.h>

/* `next` when handshakes are to have none; NULL: nothing is new. */
static tls_context *none(lane_listener *listener)
{
    return (tls_context *)(void *)listener;
}

/* The context of a new handshake. */
static tls_context *current(lane_listener *listener)
{
    tls_context *next;

    if (__atomic_load_n(&listener->next, __ATOMIC_RELAXED) != NULL) {
        next = __atomic_exchange_n(&listener->next, NULL, __ATOMIC_ACQ_REL);
        if (listener->context != NULL)
            tls_context_free(listener->context);
        listener->context = next != none(listener) ? next : NULL;
    }
    return listener->context;
}

static void put_next(lane_listener *listener, tls_context *context)
{
    tls_context *old =
        __atomic_exchange_n(&listener->next, context, __ATOMIC_ACQ_REL);

    if (old != NULL && old != none(listener))
        tls_context_free(old);
}

void lane_renew(lane *set, uint32_t i, tls_context *context)
{
    lane_listener *listener = &set->listeners[i];

    if (set->is_closed)
        return;
    if (context != NULL)
        tls_context_share(context);
    put_next(listener, context != NULL ? context : none(listener));
}

void drop_contexts(lane *set)
{
    for (uint32_t i = 0; i < set->nlisteners; i++) {
        put_next(&set->listeners[i], NULL);
        if (set->listeners[i].context != NULL)
            tls_context_free(set->listeners[i].context);
        set->listeners[i].context = NULL;
    }
}

/* Go on with the handshake, or begin.  Returns as tls_greet. */
static int greet(lane *set, int fd)
{
    tls_session *session = session_of(set, fd);
    tls_context *context;

    if (session == NULL) {
        context = current(&set->listeners[set->conns[fd].listener]);
        if (context == NULL)
            return TLS_FAILED;
        session = set->sessions[fd] = tls_begin(context);
    }
    return session != NULL ? tls_greet(session, fd) : TLS_GONE;
}

/* Whether the client has chosen HTTP/1.x, or nothing. */
static int is_http1(const tls_session *session)
{
    char name[7];
    uint32_t len = tls_alpn(session, name, sizeof name);

    return len == 0 ||
           (len == sizeof name && memcmp(name, "http/1.", sizeof name) == 0);
}

int shake(lane *set, int fd, lane_arrival *arrival)
{
    lane_conn *conn = &set->conns[fd];
    int code = greet(set, fd);

    /* The rest, or the end, may have come already. */
    if (code == TLS_WANT && await_octets(set, fd, 1))
        return 0;
    memset(arrival, 0, sizeof *arrival);
    arrival->fd = fd;
    arrival->listener = conn->listener;
    arrival->consumed = ASERVE_INCOMPLETE;
    arrival->is_first = 1;
    if (code == 1 && is_http1(session_of(set, fd))) {
        arrival->kind = LANE_SHAKEN;
        set_shaking(conn, 0);
        set_since(set, conn);
        if (!set->listeners[conn->listener].is_tcp || add_peer(set, arrival))
            return 1;
        code = TLS_GONE;
    }
    if (code == TLS_GONE) {
        close_conn(set, fd);
        return 0;
    }
    arrival->kind = LANE_LEFT;
    take_out(set, fd);
    return 1;
}

void lane_begin(lane *set, int fd, int keep)
{
    rearm(set, fd); /* octets that were read with the handshake's last */
    /* Either this thread sees is_closed, or lane_close sees IDLE. */
    if (!keep || !make_idle(set, fd) ||
        (__atomic_load_n(&set->is_closed, __ATOMIC_SEQ_CST) &&
         change_state(&set->conns[fd], LANE_IDLE, LANE_BUSY)))
        close_conn(set, fd);
}

int lane_release_shaking(lane *set, uint32_t seconds, lane_released *out,
                         uint32_t cap)
{
    uint32_t top = __atomic_load_n(&set->top, __ATOMIC_RELAXED);
    uint32_t n = 0;

    for (uint32_t fd = 0; fd < top && n < cap; fd++) {
        lane_conn *conn = &set->conns[fd];

        if (!is_shaking(conn) || seconds_since(set, conn) < seconds ||
            !change_state(conn, LANE_IDLE, LANE_BUSY))
            continue;
        if (!is_shaking(conn)) { /* it is done by now */
            rearm(set, (int)fd);
            make_idle(set, (int)fd);
            continue;
        }
        out[n].fd = (int32_t)fd;
        out[n].listener = conn->listener;
        out[n++].is_used = 0;
        take_out(set, (int)fd);
    }
    return (int)n;
}

#endif
