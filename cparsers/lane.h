/* lane.h -- many connections in few calls.
 * A lane is a set of listening and connected sockets.  lane_poll waits,
 * accepts, reads and parses a batch of requests; lane_reply sends a response
 * and keeps or closes its connection.  This is the one room of cparsers/ that
 * does I/O.  A body of known length comes in parts; a head that is not complete
 * after one read, or anything else that takes more than a read and a write, is
 * passed on to the caller.
 * Linux (epoll, timerfd) only; elsewhere lane_available() is 0.
 * No allocation, but in sessions of TLS (tls.h) and for HTTP/2 (lane_h2.h), and
 * no globals.  lane_poll and lane_own: one thread at a time; lane_reply and
 * lane_release: any thread, for a connection that is BUSY there, and of two
 * such threads one; lane_sweep, lane_unlisten, lane_adopt, lane_renew,
 * lane_release_shaking and lane_close: one thread, which may be another; of
 * HTTP/2: see there; the others: any thread.
 * Long: the one interface of eight sources. */
#ifndef ASERVE_LANE_H
#define ASERVE_LANE_H
#include "aserve.h"
#include "h2.h"
#include "http1.h"
#include "in_flight.h"
#include "known.h"
#include "load_board.h"
#include "scgi.h"
#include "tls.h"
#include "uwsgi.h"
/* cdef:begin */

enum { LANE_HTTP = 0, LANE_UWSGI = 1, LANE_SCGI = 2 };

/* Field sections that are kept at most, for all connections together.  Guess:
 * more clients than are at work at once. */
enum { LANE_KNOWN = 256 };

/* Streams of HTTP/2 that have their requests with the caller, and the
 * connections that carry them: each has a number above all descriptors, by
 * which it is a connection of the lane.  Carriers leave a quarter of the
 * numbers to streams, however many carriers idle. */
enum { LANE_STREAMS = 1 << 14, LANE_CARRIERS = 3 * LANE_STREAMS / 4 };
typedef struct lane_h2 lane_h2;

/* The state of a connection of the lane. */
enum {
    LANE_FREE = 0,   /* no connection, or not the lane's */
    LANE_IDLE = 1,   /* waits for a request */
    LANE_BUSY = 2,   /* a request is with the caller */
    LANE_MORE = 3,   /* the same, and meanwhile octets or the end have come */
    LANE_ENDING = 4, /* the same, and lane_close is at it: for a moment */
    LANE_BODY = 5    /* waits for more of a body */
};

/* The kind of an arrival. */
enum {
    LANE_LEFT = 0, /* anything but the following: the connection is released */
    LANE_WHOLE = 1,  /* a request and nothing else; the connection is BUSY */
    LANE_BEGUN = 2,  /* a head, and a part of its body, perhaps empty */
    LANE_PART = 3,   /* a further part */
    LANE_DONE = 4,   /* the last part; the connection is BUSY */
    LANE_GONE = 5,   /* the client is gone within the body; it is closed */
    LANE_SHAKEN = 6, /* a handshake of TLS is done: is_first, BUSY; lane_begin
                      * must follow */
    LANE_ENDED =
        7 /* of a stream, which stays BUSY: lane_keep's response is the
                    * caller's again; `consumed`: PUMP_SENT, _GONE, _LATE;
                    * content_length: octets of the body that are not sent */
};

/* Results of lane_reply, besides octets that were sent. */
enum {
    LANE_UNSENT = -1, /* nothing was sent: closing now could reset octets that
                       * the client has not read, as no response announced the
                       * close, and it may send more, or has sent more; or
                       * the response is longer than 2^31 - 1 octets */
    LANE_LOST = -2,   /* the client is gone, and the connection is closed */
    LANE_LATE = -3,   /* all was sent, but the client had left before */
    LANE_HELD = -4 /* all was taken, but the session of TLS holds records that
                       * the socket has not: the caller must go on */
};

/* One connection; the table of them is indexed by file descriptor. */
typedef struct {
    uint64_t body_left; /* octets of the body still to come, after BEGUN */
    uint8_t state;      /* LANE_*; atomic */
    uint8_t listed;     /* 1: in the epoll set */
    uint16_t listener;  /* which one has accepted it; atomic */
    uint8_t used;       /* 1: has carried a request; atomic */
    uint8_t last;       /* 1: the client expects the connection to close */
    uint8_t shaking;    /* 1: in the handshake of TLS; atomic */
    uint16_t section;   /* known_hash of its last field section; 0: none */
    uint32_t since;     /* lane->now when it became IDLE, or had its request;
                         * atomic */
    uint32_t carrier;   /* the number of the connection of HTTP/2 that this is,
                         * or that carries this stream; 0: neither; atomic */
} lane_conn;

/* One request, a part of it, or another event of a connection. */
typedef struct {
    uint64_t content_length; /* octets of the body, by the head */
    int32_t fd;
    int32_t consumed;   /* octets of the head (> 0), or an ASERVE_ code; see
                         * ENDED */
    uint32_t input_off; /* the octets read: lane->input + input_off; */
    uint32_t input_len; /* 0: not in the table, and not yet read */
    uint32_t vars_off;  /* the vars block is at lane->vars + vars_off */
    uint32_t vars_len;
    uint32_t nfirst;    /* of its pairs come first: see vars.h */
    uint32_t flags;     /* http1_head's; 0 otherwise */
    uint32_t modifier1; /* uwsgi_packet's; 0 otherwise */
    uint32_t listener;
    uint32_t kind;     /* LANE_LEFT ... */
    uint32_t is_first; /* 1: the first on this connection */
    uint32_t peer_off; /* of a first that is not LEFT: address NUL port of a */
    uint32_t peer_len; /* TCP peer, at lane->vars + peer_off; 0: not TCP */
    uint32_t carrier;  /* of a stream: the number of its carrier; LEFT: that of
                        * the connection itself, of HTTP/2; 0: neither */
} lane_arrival;

/* One connection that has left the lane while it was IDLE. */
typedef struct {
    int32_t fd;
    uint32_t listener;
    uint32_t is_used; /* 1: has carried a request */
} lane_released;

typedef struct {
    int32_t fd;        /* listening, non-blocking */
    uint32_t protocol; /* LANE_HTTP, _UWSGI, _SCGI */
    uint32_t is_tcp;
    uint32_t is_tls;
    uint32_t shakes; /* of TLS: 0: the caller accepts and shakes hands, then
                      * lane_adopt; set before lane_open */
    tls_context
        *context;      /* of new handshakes; NULL: they are LEFT, unread; the
                           * lane's, as the next is */
    tls_context *next; /* to be taken, unless it is NULL; atomic */
    uint32_t is_off;   /* accepts no more; atomic */
    uint32_t pause;    /* why it does not accept for now; 0: it does */
} lane_listener;

typedef struct {
    /* set by the caller, once */
    lane_listener *listeners;
    uint32_t nlisteners;
    lane_conn *conns; /* zero-filled */
    uint32_t conns_cap;
    char *input;
    uint32_t input_cap; /* octets */
    uint32_t read_cap;  /* octets read at most from one connection */
    uint32_t body_cap;  /* octets of a request over HTTP/2 that are kept */
    char *vars;
    uint32_t vars_cap;     /* octets */
    uint32_t max_head_len; /* as in the parsers; and so on */
    uint32_t max_line_len;
    uint32_t max_fields;
    uint32_t max_vars;
    uint32_t stall_us; /* after which stall_fd signals; 0: never */
    /* A client that has ended what it sends, so long behind its request, has
     * left; 0: it never has, as it may still read. */
    uint32_t leaving_seconds;
    uint64_t max_body_len;
    lane_arrival *arrivals;
    uint32_t arrivals_cap;    /* requests given by one call */
    load_board *board;        /* NULL: no other process has our listeners */
    uint64_t *entries_used;   /* the highest descriptor in there so far, + 1 */
    in_flight_entry *entries; /* by descriptor, conns_cap of them, or NULL */
    known_section *known;     /* zero-filled, LANE_KNOWN of them, or NULL */
    tls_session **sessions;   /* by descriptor, zero-filled; NULL: no TLS */
    lane_h2 *h2;              /* of lane_h2_new; NULL: no HTTP/2 */
    uint32_t first_stream;    /* of LANE_STREAMS numbers in the table */
    /* set by the caller, at any time */
    uint32_t now;       /* seconds since the start; atomic */
    uint32_t now_at;    /* CLOCK_MONOTONIC in seconds, when that was set */
    uint32_t max_conns; /* the most connections; atomic */
    uint32_t nothers;   /* connections outside that count, too; atomic */
    /* set by lane_open */
    int32_t epoll_fd;
    int32_t wake_fd;
    /* becomes readable stall_us to 2 * stall_us after lane_poll returned a
     * batch, or lane_reply has answered some more of its requests, or
     * lane_watch; perhaps also, once and in vain, while the next one waits */
    int32_t stall_fd;
    int32_t rest_fd; /* readable when lane.is_resting is over */
    /* set by lane_poll */
    uint64_t nrequests;  /* WHOLE and DONE, since lane_open; atomic */
    uint32_t is_waiting; /* 1: in lane_poll or lane_look; atomic */
    uint32_t vars_len;   /* octets written to vars */
    uint32_t nfull;      /* how often accepting stopped at max_conns, */
    uint32_t nshort;     /* and for lack of descriptors or memory; atomic */
    /* kept by the lane */
    uint32_t nconns; /* connections neither closed nor left; atomic */
    uint32_t nusers; /* those, and the lane itself until lane_close; atomic */
    uint32_t top;    /* the highest descriptor so far, + 1; atomic */
    uint32_t is_accepting;  /* atomic */
    uint32_t is_accept_due; /* the last batch was full before its listeners */
    uint64_t stall_at;  /* stall_fd signals: monotonic microseconds; atomic */
    uint32_t is_arming; /* a thread changes stall_at; atomic */
    uint32_t nreplies;  /* about how many, since lane_open; atomic */
    uint32_t is_closed; /* atomic */
    /* accepting is paused: a listener is out of the epoll set, until fewer
     * than paused_conns are open, or the second paused_at is over; atomic */
    uint32_t is_paused;
    uint32_t paused_conns;
    uint32_t paused_at;
    uint32_t none_idle_at; /* when lane_evict_idle last found none */
    /* a listener is out of the epoll set, so that a process with less to do
     * accepts: for about a millisecond, or until it has as much to do */
    uint32_t is_resting;
    uint32_t is_looking;    /* in lane_look */
    uint32_t is_shake_due;  /* lane_look has left handshakes to lane_poll */
    uint32_t is_body_due;   /* bodies of lane_keep are left to lane_poll */
    int32_t next_conn;      /* the first without room in a full batch, and */
    uint32_t next_listener; /* of these: the next batch begins there */
} lane;

/* Returns 1 if this platform supports a lane. */
int lane_available(void);

/* Make the epoll set and put the listeners into it.  Returns 0 or an errno,
 * after which only lane_close may follow. */
int lane_open(lane *set);

/* Close every connection, and the lane's own descriptors.  One that is BUSY is
 * shut down, so that its client sees the end, and keeps its descriptor until
 * lane_reply or lane_release; the last of those, and of lane_left, closes the
 * lane's own.  No lane_poll may run, nor follow. */
void lane_close(lane *set);

/* Accept on listener `i` no more: afterwards no thread uses its descriptor. */
void lane_unlisten(lane *set, uint32_t i);

/* Wait at most timeout_ms (-1: until an event comes), then accept, read and
 * parse as much as is there and has room.  Returns the number of arrivals.
 * At max_conns, or without descriptors, new clients stay in the kernel's queue
 * until a connection ends, or for a second and a lane_wake.  With a board it
 * accepts no more than load_board_quota allows. */
int lane_poll(lane *set, int timeout_ms);

/* As lane_poll(set, 0), for who must not be kept: no handshake goes on, and no
 * body of lane_keep. */
int lane_look(lane *set);

/* Begin new handshakes of listener `i` by this context from now on; NULL: none,
 * their connections are LEFT.  One thread, which may be another than that of
 * lane_poll. */
void lane_renew(lane *set, uint32_t i, tls_context *context);

/* Let a connection that is SHAKEN wait for its first request, or (keep = 0)
 * close it. */
void lane_begin(lane *set, int fd, int keep);

/* Release connections that have been in the handshake for `seconds`, `cap` at
 * most: as with lane_release_idle, but each counts until lane_left, and has a
 * session if octets have come. */
int lane_release_shaking(lane *set, uint32_t seconds, lane_released *out,
                         uint32_t cap);

/* Make a waiting lane_poll return. */
void lane_wake(lane *set);

/* Let stall_fd signal as if a batch had begun now. */
void lane_watch(lane *set);

/* Send a whole response, `head` and then `body`, on a BUSY connection; both are
 * empty when the caller has sent it by itself, in pieces.  If all of it is
 * sent, the connection waits for the next request (keep = 1) or is closed.
 * Returns LANE_LOST, LANE_LATE; else the octets that were taken: when they
 * are fewer, or LANE_UNSENT, the caller must go on (lane_release). */
int lane_reply(lane *set, int fd, const char *head, uint32_t head_len,
               const char *body, uint32_t body_len, int keep);

/* A piece of what lane_send sends. */
typedef struct {
    const char *at;
    uint64_t size;
} lane_part;

/* Send a part of a response on a BUSY connection; more will follow.  Returns the
 * octets that were taken; -1: the client is gone, or is behind and none were;
 * LANE_HELD.  Of a stream all are taken or none, and the first part begins with
 * the head. */
int64_t lane_send(lane *set, int fd, const lane_part *parts, uint32_t count);

/* Whether the session of a BUSY connection holds records: see LANE_HELD. */
int lane_holds(lane *set, int fd);

/* Whether the client of a BUSY connection has stopped sending, leaving_seconds
 * or more after its request. */
int lane_has_left(lane *set, int fd);

/* Take a BUSY connection out of the lane: its descriptor is the caller's.
 * Returns 0 when there is none, or no more: the lane was closed. */
int lane_release(lane *set, int fd);

/* The session of a BUSY connection; NULL: it is not of TLS. */
tls_session *lane_session(const lane *set, int fd);

/* Take the session of a connection that is LEFT or released, before its
 * descriptor is closed or given away.  NULL: it is not of TLS. */
tls_session *lane_take_session(lane *set, int fd);

/* Release IDLE connections without TLS, `cap` at most: write them to `out`, and return
 * how many.  Their descriptors are the caller's, and they do not count in
 * nconns any more.  Nothing was read of them beyond their last request:
 * octets that came since stay with the kernel. */
int lane_release_idle(lane *set, lane_released *out, uint32_t cap);

/* Own a connection that waits for more of a body (BODY): make it BUSY, so that
 * no other thread touches it.  Returns 0 when it does not wait for that.  Of a
 * number that lane_poll may have brought something of, call it when all of
 * that is known: the number may have become another connection's in there.
 * In the middle of a batch it may be called for the connection of the arrival
 * at hand: a number has one event a poll, and a connection whose body is
 * awaited closes only by GONE, which is its last arrival. */
int lane_own(lane *set, int fd);

/* Count a connection that has left the lane in nconns no longer. */
void lane_left(lane *set);

/* Take a connection of listener `i` into the lane, or back into it: connected,
 * non-blocking, and idle after a request (is_used = 1) or a handshake, with
 * nothing unparsed or unsent, but in its session, if it has one.  It
 * is IDLE from now on, and octets that came already arrive like later ones; no
 * arrival is_first.  Returns 0, and the descriptor stays the caller's, when
 * the table has no place for it, the listener accepts no more (lane_unlisten)
 * or has a protocol of one request a connection (uwsgi, SCGI), the lane is
 * closed, the client is behind with the session's records, or the kernel has no
 * memory; otherwise 1, and the session is the lane's.
 * While lane_poll runs in another thread: the connection may have arrived there
 * before this returns, and be gone, its number another connection's.  So the
 * caller prepares for its arrivals first and, when it is 1, never uses the
 * number again.  It counts in nconns, whatever max_conns is: lower nothers
 * afterwards.  The caller has called lane_left if it was in the lane before. */
int lane_adopt(lane *set, int fd, uint32_t i, tls_session *session,
               int is_used);

/* Close connections that have been IDLE for longer than `used_seconds` if they
 * have carried a request, else `new_seconds`.  -1: at once.  A connection
 * whose next request has come already stays.  The caller looks for bodies that
 * do not move.  Returns how many. */
int lane_sweep(lane *set, int used_seconds, int new_seconds);

/* Evict some connections for those that wait in the kernel's queue: close the
 * ones that have been IDLE the longest after a request, but a second at least.
 * Returns how many. */
int lane_evict_idle(lane *set);

/* HTTP/2.  Octets of a connection become requests, each a stream and WHOLE: a
 * body that comes within a moment is kept up to body_cap.  At anything else the
 * connection is LEFT, and its streams leave it as they are answered: lane_reply
 * takes nothing, and after lane_release comes lane_take_stream.  Later the
 * connection may return as a new carrier.
 * One thread, which may be another than lane_poll's; but lane_flush, lane_taken
 * and lane_carrier_of: any thread, and lane_take_stream lane_poll's, too. */

/* Room for field sections of so many octets (h2_limits).  NULL: no memory. */
lane_h2 *lane_h2_new(uint32_t max_section_bytes);
void lane_h2_free(lane_h2 *h2);

/* Reserve the number of a carrier, until lane_drop_carrier.  -1: none is free,
 * or there is no memory. */
int lane_new_carrier(lane *set);

/* Give a reserved carrier octets that have come, before lane_adopt_carrier.
 * Returns 0: there is no memory. */
int lane_feed_carrier(lane *set, int number, const char *octets, uint32_t len);

/* As lane_adopt, of a connection that speaks HTTP/2; 1: `h2` is the lane's. */
int lane_adopt_carrier(lane *set, int number, int fd, uint32_t i,
                       tls_session *session, int is_used, h2_connection *h2);

/* Carriers in the lane that are IDLE for longer, as in lane_sweep, or whose
 * clients do not read, or send a body slowly.  -1 and -1: all.  Returns how many
 * numbers were written; lane_let_go is due for each, as of a LEFT arrival. */
int lane_due_carriers(lane *set, int used_seconds, int new_seconds,
                      int32_t *numbers, uint32_t cap);

/* The number of the carrier of a stream that is not answered. */
int lane_carrier_of(lane *set, int number);

/* Take a carrier out of the lane, if it is still there.  Returns its
 * descriptor, the caller's; -1: it is closed. */
int lane_release_carrier(lane *set, int number);

/* A part of what a carrier has left behind: a request whose body has not all
 * come; the last: frames that the lane does not act upon, octets behind them. */
typedef struct {
    uint32_t count; /* of events */
    uint32_t text_len;
    uint32_t left_len;
    uint32_t is_idle; /* without a request for a second at least */
    h2_event events[4];
    const char *text;
    const char *left;
} lane_remains;

/* Take the state of a released carrier. */
void lane_take_carrier(lane *set, int number, h2_connection *to);

/* The next part, valid until the one after it.  Returns 0: it is the last. */
int lane_next_remains(lane *set, int number, lane_remains *remains);

/* The streams of a carrier that are not taken or answered. */
uint32_t lane_running(lane *set, int number);

/* The octets of the body that lane_send has taken for a stream; -1: nor the
 * head. */
int64_t lane_taken(lane *set, int number);

/* Send a whole response on a BUSY stream, as its client makes room; any thread.
 * `body` stays until LANE_ENDED, an empty lane_reply or lane_release: the stream
 * is BUSY until one of the last two.  Returns 0: LANE_ENDED comes; 1: all is sent; LANE_LOST: the
 * client is gone; LANE_UNSENT: the connection has left the lane. */
int lane_keep(lane *set, int number, const char *head, uint32_t head_len,
              const char *body, uint64_t body_len);

/* Take a stream that lane_release has released; returns its id. */
uint32_t lane_take_stream(lane *set, int number);

/* Give up the number of a carrier that is not in the lane: the caller's own,
 * since lane_new_carrier or lane_release_carrier. */
void lane_drop_carrier(lane *set, int number);
void lane_let_go(lane *set, int number);

/* Send what replies have left to be sent together; any thread. */
void lane_flush(lane *set);

/* cdef:end */
#endif
