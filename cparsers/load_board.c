/* load_board.c -- one word for each process, and the decisions by them. */
#include "load_board.h"

static const uint64_t NOBODY = UINT64_MAX;

enum {
    /* How often a process is waited for that does not accept: about as many
     * milliseconds.  One that has to wait for a CPU should get it sooner: with
     * a load of 10 on two of them, 32 were too few (2026-11-22). */
    MAX_WAITS = 100,
    /* How many turns a process may be ahead of another, and behind it.
     * Guesses: in the millisecond for which a listener is left alone, others
     * should find enough to do; and a process that slept has no claim to all
     * that it has missed. */
    MAX_LEAD = 64,
    MAX_LAG = 256,
    TURN_BITS = 64 - LOAD_TURN_SHIFT
};

static uint32_t part(uint64_t word, uint32_t shift)
{
    return (uint32_t)(word >> shift) & ((1u << LOAD_COUNT_BITS) - 1);
}

static void show(load_board *board, uint64_t word)
{
    __atomic_store_n(&board->words[(uint64_t)board->index * board->stride],
                     word, __ATOMIC_RELAXED);
}

/* The parts of two words add up side by side. */
static uint64_t whole(load_board *board, uint64_t own)
{
    return own + __atomic_load_n(&board->outside, __ATOMIC_RELAXED);
}

void load_board_add(load_board *board, uint32_t shift, int32_t count)
{
    uint64_t change = (uint64_t)(int64_t)count << shift;
    uint64_t own = __atomic_add_fetch(&board->own, change, __ATOMIC_RELAXED);

    /* Of two threads the later may be the first to show its number: until the
     * next one the word is wrong by one. */
    if (!__atomic_load_n(&board->is_left, __ATOMIC_RELAXED))
        show(board, whole(board, own));
}

void load_board_leave(load_board *board)
{
    __atomic_store_n(&board->is_left, 1, __ATOMIC_RELAXED);
    show(board, NOBODY);
}

/* By more than what levels out by itself.  One is much more than none: two
 * connections go to two processes, as each may bring all the work of a CPU. */
static int is_ahead(uint32_t own, uint32_t other)
{
    return own > other + (other != 0) + other / 8;
}

/* How many turns one word is ahead of another. */
static int32_t lead_of(uint64_t word, uint64_t other)
{
    uint32_t more = (uint32_t)(word >> LOAD_TURN_SHIFT) -
                    (uint32_t)(other >> LOAD_TURN_SHIFT);

    return (int32_t)(more << (32 - TURN_BITS)) / (1 << (32 - TURN_BITS));
}

/* Whether a process that shows `other` should have the next connection.
 * Requests count first; connections that idle may bring some later. */
static int is_emptier(uint64_t other, uint64_t own)
{
    uint32_t own_requests = part(own, LOAD_REQUEST_SHIFT);
    uint32_t requests = part(other, LOAD_REQUEST_SHIFT);
    uint32_t own_conns = part(own, LOAD_CONN_SHIFT);
    uint32_t conns = part(other, LOAD_CONN_SHIFT);

    if (requests != own_requests &&
        (requests > own_requests || is_ahead(own_requests, requests)))
        return requests < own_requests;
    if (is_ahead(own_conns, conns) || is_ahead(conns, own_conns))
        return conns < own_conns;
    return lead_of(own, other) > MAX_LEAD;
}

/* Whether it has less to do, if only by a little: then it need not wait. */
static int is_less(uint64_t word, uint64_t other)
{
    static const uint64_t counts = ((uint64_t)1 << LOAD_TURN_SHIFT) - 1;

    if ((word & counts) != (other & counts))
        return (word & counts) < (other & counts);
    return lead_of(word, other) < 0;
}

/* Whether a process has been waited for in vain while it showed this. */
static int is_given_up(load_wait *wait, uint64_t word)
{
    return __atomic_load_n(&wait->word, __ATOMIC_RELAXED) == word &&
           __atomic_load_n(&wait->n, __ATOMIC_RELAXED) >= MAX_WAITS;
}

static void count_wait(load_wait *wait, uint64_t word)
{
    if (__atomic_exchange_n(&wait->word, word, __ATOMIC_RELAXED) == word)
        __atomic_add_fetch(&wait->n, 1, __ATOMIC_RELAXED);
    else
        __atomic_store_n(&wait->n, 1, __ATOMIC_RELAXED);
}

static int look(load_board *board, int is_waiting)
{
    uint64_t own =
        whole(board, __atomic_load_n(&board->own, __ATOMIC_RELAXED));
    uint32_t requests = part(own, LOAD_REQUEST_SHIFT);
    uint32_t most = board->threads;
    int has_emptier = 0, has_less = 0;
    int32_t lag = 0;
    uint32_t count = __atomic_load_n(&board->count, __ATOMIC_RELAXED);

    for (uint32_t i = 0; i < count; i++) {
        load_wait *wait = &board->waits[i];
        uint64_t word = __atomic_load_n(
            &board->words[(uint64_t)i * board->stride], __ATOMIC_RELAXED);

        if (i == board->index || word == NOBODY || is_given_up(wait, word))
            continue;
        if (part(word, LOAD_REQUEST_SHIFT) < most)
            most = part(word, LOAD_REQUEST_SHIFT);
        has_less |= is_less(word, own);
        if (is_emptier(word, own)) {
            has_emptier = 1;
            if (is_waiting)
                count_wait(wait, word);
        }
        if (lead_of(word, own) > lag)
            lag = lead_of(word, own);
    }
    if (lag > MAX_LAG)
        load_board_add(board, LOAD_TURN_SHIFT, lag - MAX_LAG);
    if (has_emptier && has_less)
        return 0;
    return requests < most ? 1 + (int)(most - requests) : 1;
}

int load_board_quota(load_board *board)
{
    return look(board, 1);
}

int load_board_is_due(load_board *board)
{
    return look(board, 0) > 0;
}
