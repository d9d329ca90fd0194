/* h2.h -- one connection of HTTP/2, as its server (RFC 9113, 7541, 8441,
 * 9218): octets come in and become events, calls become octets that go out.
 * No I/O.  A connection belongs to one thread at a time.  Its memory is three
 * blocks that grow within bounds and that h2_end() frees; memory that is
 * refused ends the connection. */
#ifndef ASERVE_H2_H
#define ASERVE_H2_H
#include <stddef.h>
#include <stdint.h>
#include "aserve.h"
#include "hpack.h"
/* cdef:begin */

enum {
    /* RFC 9113 7 */
    H2_NO_ERROR = 0,
    H2_PROTOCOL_ERROR = 1,
    H2_INTERNAL_ERROR = 2,
    H2_FLOW_CONTROL_ERROR = 3,
    H2_STREAM_CLOSED = 5,
    H2_FRAME_SIZE_ERROR = 6,
    H2_REFUSED_STREAM = 7,
    H2_COMPRESSION_ERROR = 9,
    H2_ENHANCE_YOUR_CALM = 11,
    /* A client may send so much of a body before it is taken, and of all
     * bodies.  Guess: 20 MB/s at 12 ms. */
    H2_STREAM_WINDOW = 1 << 18,
    H2_CONNECTION_WINDOW = 1 << 20,
    H2_FRAME_BYTES = 1 << 14,    /* RFC 9113 6.5.2: the largest that we take */
    H2_LAST_STREAM = 0x7fffffff, /* RFC 9113 6.8: of the first GOAWAY */
    /* Of one call of h2_receive: what Python makes of these takes 3 ms.  A
     * browser begins about as many streams at once. */
    H2_FRAMES = 100,
    H2_EVENTS = H2_FRAMES + 1,
    /* Of one SETTINGS frame; browsers send six.  As nghttp2 has it. */
    H2_FRAME_SETTINGS = 32,
    /* CONTINUATION frames of one section; an empty one costs as much. */
    H2_CONTINUATIONS = 64,
    /* Frames that bring no request further (RFC 9113 10.5).  A browser that
     * leaves a page resets all of its streams at once.  Guess: ten such pages
     * in a row, then one each second. */
    H2_BURST = 1000,
    H2_EACH_SECOND = 100,
    /* Updates of windows for each DATA frame of ours: a client may give room
     * in portions of 1 KiB.  Guess. */
    H2_UPDATES_PER_FRAME = 16,
    /* Whether a frame for a closed stream is a fault depends on how it was
     * closed; of so many streams that is known. */
    H2_CLOSED = 256,
    /* A stream whose response is sent, and whose client sends on, is reset
     * after these: curl 7.88 drops a response with a reset behind it. */
    H2_LINGER_SECONDS = 2,
    H2_URGENCY = 3, /* RFC 9218 4.1: the default */
    /* A head of HTTP/1.1 may have so much more than its field section. */
    H2_HEAD_ROOM = 256,
    H2_GONE = -1,     /* there is no such stream any more */
    H2_MALFORMED = -2 /* the head is none; nothing is sent */
};

/* RFC 9113 5.1; a stream that is idle or closed has no h2_stream. */
enum { H2_OPEN, H2_HALF_CLOSED_REMOTE, H2_HALF_CLOSED_LOCAL };

typedef struct {
    uint32_t id;
    uint8_t state;
    uint8_t seconds; /* since its response, while it is half-closed (local) */
    uint8_t has_length;
    uint8_t urgency;     /* RFC 9218 4.1 */
    int64_t send_window; /* RFC 9113 6.9.2: it may be negative */
    int64_t recv_window;
    uint64_t promised; /* by Content-Length, and not received */
} h2_stream;

/* What a connection waits for. */
enum { H2_PREFACE, H2_FIRST_SETTINGS, H2_ACTIVE, H2_OVER };

typedef struct {
    uint32_t max_streams;
    uint32_t max_section_bytes; /* RFC 9113 6.5.2 */
    uint8_t takes_websockets;   /* RFC 8441 3 */
} h2_limits;

/* private */
typedef struct {
    h2_limits limits;
    uint8_t state;
    uint8_t preface_len;    /* octets of it that have come */
    uint8_t block_flags;    /* of the HEADERS frame that has begun it */
    uint8_t is_failure_due; /* the caller has not been told that it is over */
    /* Octets of a frame, and of a field block, that are not whole. */
    uint8_t *frame, *block;
    uint32_t frame_len, frame_cap, block_len, block_cap;
    uint32_t block_id, block_frames; /* 0: no block has begun */
    /* Octets to be sent. */
    uint8_t *out;
    size_t out_len, out_cap;
    /* Streams, by their numbers. */
    h2_stream *streams;
    uint32_t nstreams, streams_cap;
    uint32_t last_id;           /* the highest that the client has begun */
    uint32_t last_served;       /* of those that became events; for GOAWAY */
    uint32_t last_wanted;       /* our last GOAWAY has excluded those above */
    uint32_t closed[H2_CLOSED]; /* a ring: id / 2 << 2, and how */
    uint32_t nclosed;
    int64_t send_window, initial_window, recv_window;
    uint32_t max_frame; /* of the client */
    /* Floods */
    uint32_t frames_left;
    uint64_t updates, sent_count; /* sent_count: DATA frames */
    hpack_table decoder;
    hpack_encoder encoder;
} h2_connection;

/* What has happened. */
enum {
    H2_REQUEST,  /* text: a head of HTTP/1.1; number: 1: of lane_remains */
    H2_DATA,     /* text: octets of frames; number: what the windows count */
    H2_RESET,    /* the stream is closed; number: the code */
    H2_REFUSED,  /* the stream was malformed and is reset; text: why */
    H2_ROOM,     /* there is more room for a stream, or all (0) */
    H2_PRIORITY, /* number: the new urgency of the stream */
    H2_GOAWAY,   /* the client will begin no more streams */
    H2_FAILED    /* the connection is over; number: the code; text: why */
};
enum {
    H2_END_STREAM = 1,
    H2_IS_HEAD = 2,   /* the method of a request */
    H2_IS_UPGRADE = 4 /* of h2_send: the answer to a request for a WebSocket */
};

typedef struct {
    uint32_t kind;
    uint32_t stream;
    uint32_t flags;
    uint32_t number;
    aserve_span text;
} h2_event;

/* What one call of h2_receive finds; the caller sets the second part. */
typedef struct {
    uint32_t count; /* of events */
    uint32_t frames;
    uint32_t text_len;
    h2_event events[H2_EVENTS];
    uint32_t max_frames; /* H2_FRAMES at most */
    uint32_t text_cap;   /* at least H2_FRAME_BYTES, and max_section_bytes and
                          H2_HEAD_ROOM, each with 128 more */
    char *text;
    hpack_field *fields; /* max_section_bytes / HPACK_OVERHEAD of them */
    char *section;       /* max_section_bytes */
} h2_found;

/* Make a connection in memory of any content; our SETTINGS are the first
 * octets to send. */
void h2_begin(h2_connection *c, const h2_limits *limits);

/* Free what it has. */
void h2_end(h2_connection *c);

/* Receive data[at .. len): at most max_frames frames, and as long as there is
 * room in found->text for a further one.  Octets of a part of a frame are
 * kept.  Returns where to go on: `len`, or less if frames are left. */
size_t h2_receive(h2_connection *c, const char *data, size_t at, size_t len,
                  h2_found *found);

/* The client sends no more: streams that are not whole are closed. */
void h2_end_input(h2_connection *c);

/* A second has passed. */
void h2_pass_second(h2_connection *c);

/* The urgency of a stream; of one that is gone the default. */
uint32_t h2_urgency(const h2_connection *c, uint32_t id);

/* How many octets of a body may be sent now; or H2_GONE. */
long h2_room(const h2_connection *c, uint32_t id);

/* Send a head of HTTP/1.1, if head_len is not 0, and up to h2_room() octets
 * of the body, if there are any.  `flags`: H2_END_STREAM, H2_IS_UPGRADE.
 * Returns the number of octets of the body; H2_GONE; H2_MALFORMED. */
long h2_send(h2_connection *c, uint32_t id, const char *head, size_t head_len,
             const char *body, size_t body_len, uint32_t flags);

/* Give a client room for so many octets of a body. */
void h2_give_room(h2_connection *c, uint32_t id, uint32_t count);

/* Reset a stream, if it is there.  REFUSED_STREAM counts as a flood. */
void h2_reset(h2_connection *c, uint32_t id, uint32_t code);

/* Send a GOAWAY.  With H2_LAST_STREAM it asks for no more streams; else it
 * names the last that is served, and frames of later ones are dropped. */
void h2_goaway(h2_connection *c, uint32_t last_id, uint32_t code);

/* The octets at c->out were taken. */
void h2_sent(h2_connection *c);

/* cdef:end */
#endif
