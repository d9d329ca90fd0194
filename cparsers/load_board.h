/* load_board.h -- which of the processes that share a listener has least to
 * do.  Each has one word in memory that all of them share, writes only its
 * own, and looks at those of the others before it accepts.  No I/O. */
#ifndef ASERVE_LOAD_BOARD_H
#define ASERVE_LOAD_BOARD_H
#include <stdint.h>
/* cdef:begin */

/* The parts of a word, from its lowest bit: connections that are open, requests
 * that run or wait, and turns, modulo 2^24: connections accepted so far, or
 * passed up (load_board_quota).  All ones: the process accepts no more. */
enum {
    LOAD_COUNT_BITS = 20,
    LOAD_CONN_SHIFT = 0,
    LOAD_REQUEST_SHIFT = 20,
    LOAD_TURN_SHIFT = 40
};

/* How often another process was waited for. */
typedef struct {
    uint64_t word; /* while it showed this; atomic */
    uint32_t n;    /* atomic */
} load_wait;

typedef struct {
    /* set by the caller, once */
    uint64_t *words;  /* process i has words[i * stride]; each atomic */
    load_wait *waits; /* for the most there will be, of this process's own;
                         zero-filled */
    uint32_t stride;
    uint32_t count;   /* atomic; may change later */
    uint32_t index;   /* which one this process is */
    uint32_t threads; /* how many requests it can run at once */
    /* set by the caller, at any time: its own counts, in the form
     * of a word.  It shows the sum of both; so does the next load_board_add */
    uint64_t outside;
    /* kept by the board */
    uint64_t own;     /* counted here; atomic */
    uint32_t is_left; /* atomic */
} load_board;

/* Count this much more in one part of this process's word, or less (or 0), and
 * show it.  Any thread. */
void load_board_add(load_board *board, uint32_t shift, int32_t count);

/* How many connections to accept now.  0: another process has less to do, so
 * leave the listener alone for about a millisecond.  Otherwise as many as it
 * takes to have as many requests as the least busy of the others, and no more
 * than threads, and one.  Less to do is: fewer requests; where they are alike,
 * fewer connections; where these are alike, fewer turns.  A process far behind
 * in turns passes up some of them.  A process that does not accept though
 * clients wait is left out until it does.  Of processes that look at the same
 * words one at least accepts. */
int load_board_quota(load_board *board);

/* Whether it would be more than 0 by now; this does not count as waiting. */
int load_board_is_due(load_board *board);

/* Take this process off the board: it accepts no more.  To be repeated until
 * all is over: a thread that has just counted may still show its number. */
void load_board_leave(load_board *board);

/* cdef:end */
#endif
