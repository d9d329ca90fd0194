/* lane_h2_bodies.c -- responses that wait for room in the windows of a client of
 * HTTP/2, or in its socket.  Bodies stay where the caller has them; whoever has
 * the carrier's lock sends of them in turns: the thread with the response, then
 * lane_poll as the client makes room.  A client that is slow is the caller's:
 * there are no time-outs here.
 * Spec: RFC 9113 section 5.2, RFC 9218. */
#define _GNU_SOURCE /* POSIX beside C99 */
#include "lane_h2.h"
#include "pump.h"

#ifdef __linux__
#include "lane_states.h"

#include <string.h>

enum {
    FRAME = H2_FRAME_BYTES - 9, /* of a body: with its head it is a record */
    PIECE = 3 * FRAME,          /* tls.c sends three at once */
    /* Of one call, as other connections wait meanwhile.  Guess: 60 us. */
    MOST_BYTES = 2 * PIECE,
    /* One frame of so many goes to the stream that has waited longest, or an
     * urgent download would keep the others out. */
    FAIR_FRAMES = 16,
    /* A body is late when so much of it takes longer than a second. */
    PACE_BYTES = 1 << 20,
    PACE_SECONDS = 1
};

/* Take a number out of a list, if it is there. */
static void unlink_from(lane *set, int *at, int number)
{
    while (*at != 0 && *at != number)
        at = &place_at(set, *at)->behind;
    if (*at == number)
        __atomic_store_n(at, place_at(set, number)->behind, __ATOMIC_RELAXED);
}

static void add_last(lane *set, carrier *c, int number)
{
    int *at = &c->waiting;

    while (*at != 0)
        at = &place_at(set, *at)->behind;
    *at = number;
    place_at(set, number)->behind = 0;
}

/* A body that has left the list has ended: lane_poll tells, but of `own`. */
static void end_body(lane *set, int number, uint32_t outcome, int own)
{
    lane_h2 *h2 = set->h2;
    place *of = place_at(set, number);

    of->outcome = outcome;
    if (number == own)
        return;
    pthread_mutex_lock(&h2->lock);
    of->behind = h2->ended;
    __atomic_store_n(&h2->ended, number, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&h2->lock);
}

void forget_body(lane *set, carrier *c, int number)
{
    place *of = place_at(set, number);

    if (of->body == NULL)
        return;
    of->body = NULL;
    unlink_from(set, &c->waiting, number);
    pthread_mutex_lock(&set->h2->lock);
    unlink_from(set, &set->h2->ended, number);
    pthread_mutex_unlock(&set->h2->lock);
}

void end_bodies(lane *set, carrier *c, uint32_t outcome)
{
    while (c->waiting != 0) {
        int number = c->waiting;

        unlink_from(set, &c->waiting, number);
        end_body(set, number, outcome, 0);
    }
    c->has_more = 0;
}

int has_late_body(lane *set, const carrier *c)
{
    int number = c->waiting;

    while (number != 0 &&
           now(set) - place_at(set, number)->since <= PACE_SECONDS)
        number = place_at(set, number)->behind;
    return number != 0;
}

/* The number whose turn it is; 0: none has room.  Those of streams that are
 * reset end. */
static int next_turn(lane *set, carrier *c, int own)
{
    uint32_t best = UINT32_MAX;
    int chosen = 0;

    for (int number = c->waiting, next; number != 0; number = next) {
        const place *of = place_at(set, number);
        long room = h2_room(&c->h2, of->stream);
        uint32_t urgency =
            c->nfair < FAIR_FRAMES ? h2_urgency(&c->h2, of->stream) : 0;

        next = of->behind;
        if (room == H2_GONE) {
            unlink_from(set, &c->waiting, number);
            end_body(set, number, PUMP_GONE, own);
        } else if (room > 0 && urgency < best) {
            best = urgency;
            chosen = number;
        }
    }
    return chosen;
}

/* Make frames of a body; alone it has all of a turn.  Returns its octets. */
static size_t send_some(lane *set, carrier *c, int number, int own)
{
    place *of = place_at(set, number);
    int is_alone = of->behind == 0 && c->waiting == number;
    size_t most = is_alone ? PIECE : FRAME, pace = of->left / PACE_BYTES;
    long n;

    most = of->left < most ? (size_t)of->left : most;
    n = h2_send(&c->h2, of->stream, NULL, 0, of->body, most,
                of->left == most ? H2_END_STREAM : 0u);
    c->nfair = c->nfair < FAIR_FRAMES ? c->nfair + 1 : 0;
    unlink_from(set, &c->waiting, number);
    if (n <= 0) { /* no memory */
        end_body(set, number, PUMP_GONE, own);
        return 0;
    }
    of->body += n;
    of->left -= (uint64_t)n;
    if (of->left / PACE_BYTES != pace)
        of->since = now(set);
    if (of->left > 0)
        add_last(set, c, number);
    else
        end_body(set, number, PUMP_SENT, own);
    return (size_t)n;
}

void send_bodies(lane *set, carrier *c, int own)
{
    size_t sent = 0;
    int number;

    c->has_more = 0;
    while ((number = next_turn(set, c, own)) != 0 && !c->is_behind) {
        if (sent >= MOST_BYTES) {
            c->has_more = 1;
            break;
        }
        sent += send_some(set, c, number, own);
        if (c->h2.out_len >= PIECE)
            send_frames(set, c);
    }
    if (!c->is_behind)
        send_frames(set, c); /* of nothing, too: it frees what is not needed */
}

static int keep(lane *set, carrier *c, int number, const struct iovec *head,
                const struct iovec *body)
{
    place *of = place_at(set, number);
    long sent;

    if (c->where != IN_LANE)
        return c->where == LEFT ? LANE_UNSENT : LANE_LOST;
    sent =
        h2_send(&c->h2, of->stream, head->iov_base, head->iov_len, NULL, 0, 0);
    if (sent == H2_MALFORMED)
        h2_reset(&c->h2, of->stream, H2_INTERNAL_ERROR);
    if (sent < 0) {
        send_or_list(set, c);
        return LANE_LOST;
    }
    of->body = body->iov_base;
    of->left = body->iov_len;
    of->since = now(set);
    of->outcome = PUMP_LATE; /* until it has ended */
    add_last(set, c, number);
    send_bodies(set, c, number);
    if (c->has_more)
        rearm(set, c->fd); /* lane_poll goes on */
    if (of->outcome == PUMP_LATE)
        return 0;
    return of->outcome == PUMP_SENT ? 1 : LANE_LOST;
}

int lane_keep(lane *set, int number, const char *head, uint32_t head_len,
              const char *body, uint64_t body_len)
{
    const struct iovec parts[2] = {{(void *)(uintptr_t)head, head_len},
                                   {(void *)(uintptr_t)body, body_len}};
    carrier *c;
    int result;

    if (!is_in_table(set, number) || is_unowned(&set->conns[number]))
        return LANE_LOST;
    c = carrier_of(set, number);
    hold(c); /* the number may be free soon */
    pthread_mutex_lock(&c->lock);
    result = keep(set, c, number, &parts[0], &parts[1]);
    unlock_carrier(set, c);
    return result;
}

int has_ended(const lane *set)
{
    return set->h2 != NULL &&
           __atomic_load_n(&set->h2->ended, __ATOMIC_RELAXED) != 0;
}

uint32_t add_ended(lane *set, uint32_t n)
{
    lane_h2 *h2 = set->h2;

    pthread_mutex_lock(&h2->lock);
    while (h2->ended != 0 && n < set->arrivals_cap) {
        lane_arrival *arrival = &set->arrivals[n++];
        const place *of = place_at(set, h2->ended);

        memset(arrival, 0, sizeof *arrival);
        arrival->kind = LANE_ENDED;
        arrival->fd = h2->ended;
        arrival->listener = set->conns[h2->ended].listener;
        arrival->consumed = (int32_t)of->outcome;
        arrival->content_length = of->left;
        __atomic_store_n(&h2->ended, of->behind, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&h2->lock);
    return n;
}

#endif
