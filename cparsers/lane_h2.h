/* lane_h2.h -- the carriers and streams of a lane, shared by lane_h2.c and
 * its neighbours.  Never part of an interface to Python. */
#ifndef ASERVE_LANE_H2_H
#define ASERVE_LANE_H2_H
#include "lane.h"

#include <pthread.h>

/* Octets that are made beyond what its socket takes, as frames or as records.
 * Guess: two pieces of bodies, and some small responses. */
enum { MOST_UNSENT = 1 << 17 };

/* Where a carrier is. */
enum { IN_LANE, LEFT, CLOSED };

/* Of bodies that have not all come: octets that are kept, for all connections
 * and for one.  Guesses: as of --response-memory; eight bodies. */
enum { HALVES_KEPT = 1 << 26, HALVES_OF_ONE = 1 << 22 };

/* A request whose body has not all come. */
typedef struct half {
    struct half *next;
    lane_arrival arrival; /* that it will be, but for its place and length */
    uint32_t stream;
    uint32_t flags;     /* of the head's event */
    uint32_t counted;   /* octets of the body, with their padding */
    uint32_t given;     /* of these: the client has room for as many again */
    uint32_t since;     /* the second */
    uint32_t len, size; /* of the octets; of this, with room for more */
    char octets[];      /* vars, head, body */
} half;

/* One connection of HTTP/2.  The lock guards all that does not say otherwise:
 * the leader reads while workers reply.  Nobody calls Python with it. */
typedef struct carrier {
    pthread_mutex_t lock;
    struct carrier
        *next;          /* of those with frames that are not sent; h2->lock */
    uint32_t is_listed; /* it is one of them; h2->lock */
    uint32_t nusers;    /* its number, its streams, that list; atomic */
    h2_connection h2;
    int number;
    int fd;
    uint32_t where;      /* written with the lock; atomic */
    uint32_t is_leaving; /* when there is room for the arrival */
    uint32_t nrunning;   /* streams with numbers, and halves; atomic */
    uint32_t second;     /* of h2_pass_second */
    uint32_t is_behind;  /* the socket has not taken all */
    uint32_t has_more;   /* of bodies, for which there is room */
    uint32_t nfair;      /* frames of bodies since the last fair turn */
    int waiting; /* the first number whose body waits for its turn; 0: none */
    uint32_t behind_at; /* the second */
    half *halves;       /* in the order in which they began */
    half *given;        /* the last that lane_next_remains has told of */
    uint32_t kept;      /* by halves */
    char *left;         /* octets that had no room in a batch */
    size_t left_at, left_len;
    char *text; /* of remains */
    lane_remains remains;
} carrier;

/* What a number means; a carrier's own has no stream. */
typedef struct {
    carrier *carrier;
    uint32_t stream;
    int32_t next;  /* of the free ones */
    int64_t taken; /* octets of a body in pieces; -1: nor is its head sent */
    /* of a response that lane_keep has taken; the carrier's lock */
    const char *body; /* NULL: it has none */
    uint64_t left;
    uint32_t since;   /* the second in which its last MiB has begun */
    uint32_t outcome; /* PUMP_SENT ... */
    int behind; /* the number that waits, or has ended, after this; 0: none */
} place;

struct lane_h2 {
    pthread_mutex_t lock; /* guards the next six, and lists of carriers */
    place places[LANE_STREAMS];
    int32_t first_free; /* -1: none */
    int32_t nused;      /* places that were ever used */
    uint32_t ncarriers; /* that have a number */
    carrier *unsent;    /* atomic, to be read */
    int ended; /* the first number whose body has ended; atomic, to be read */
    uint32_t kept; /* by halves of all carriers; atomic */
    /* of the leader */
    h2_found found;
    char octets[1 << 15]; /* read at once: two records */
    char memory[];
};

static inline place *place_at(lane *set, int number)
{
    return &set->h2->places[(uint32_t)number - set->first_stream];
}

/* Of a number that this thread may use. */
static inline carrier *carrier_of(lane *set, int number)
{
    return place_at(set, number)->carrier;
}

static inline void set_where(carrier *c, uint32_t where)
{
    __atomic_store_n(&c->where, where, __ATOMIC_RELEASE);
}

/* lane_h2.c: numbers; the carrier of a number that another thread may free is
 * held, or NULL. */
__attribute__((visibility("hidden"))) int new_number(lane *set, carrier *of,
                                                     uint32_t stream);
__attribute__((visibility("hidden"))) void free_number(lane *set, int number);
__attribute__((visibility("hidden"))) carrier *held_carrier(lane *set,
                                                            int number);
__attribute__((visibility("hidden"))) void hold(carrier *c);
__attribute__((visibility("hidden"))) void let_go(lane *set, carrier *c);
/* Free the half at this place of a list; locked. */
__attribute__((visibility("hidden"))) void drop_half(lane *set, carrier *c,
                                                     half **at);

/* lane_h2_streams.c: unlock, and let go. */
__attribute__((visibility("hidden"))) void unlock_carrier(lane *set,
                                                          carrier *c);
/* How many octets there are that are not sent; locked. */
__attribute__((visibility("hidden"))) size_t count_unsent(const lane *set,
                                                          const carrier *c);
/* Send frames now, or let the leader do so; locked. */
__attribute__((visibility("hidden"))) void send_frames(lane *set, carrier *c);
__attribute__((visibility("hidden"))) void send_or_list(lane *set, carrier *c);
/* lane_h2_bodies.c: send of the bodies that wait, for a while; they end, each
 * with this outcome; locked. */
__attribute__((visibility("hidden"))) void send_bodies(lane *set, carrier *c,
                                                       int own);
__attribute__((visibility("hidden"))) void end_bodies(lane *set, carrier *c,
                                                      uint32_t outcome);
/* Give one back, which may have ended; locked. */
__attribute__((visibility("hidden"))) void forget_body(lane *set, carrier *c,
                                                       int number);
/* Whether one has waited for too long; locked. */
__attribute__((visibility("hidden"))) int has_late_body(lane *set,
                                                        const carrier *c);
/* A stream begins, or is over; locked. */
__attribute__((visibility("hidden"))) void count_stream(lane *set, carrier *c);
__attribute__((visibility("hidden"))) void uncount_stream(lane *set,
                                                          carrier *c);
__attribute__((visibility("hidden"))) void end_stream(lane *set, carrier *c,
                                                      int number);

#endif
