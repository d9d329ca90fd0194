/* h2_streams.c -- the table of the open streams of a connection (RFC 9113
 * 5.1).  It is in the order of the numbers, as clients begin them. */
#include "h2_parts.h"

#include <stdlib.h>
#include <string.h>

/* Where the stream is, or would be. */
static uint32_t place_of(const h2_connection *c, uint32_t id)
{
    uint32_t low = 0, high = c->nstreams;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (c->streams[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

h2_stream *stream_of(const h2_connection *c, uint32_t id)
{
    uint32_t place = place_of(c, id);

    return place < c->nstreams && c->streams[place].id == id
               ? &c->streams[place]
               : NULL;
}

h2_stream *new_stream(h2_connection *c, uint32_t id)
{
    h2_stream *stream;

    if (c->nstreams == c->streams_cap) {
        uint32_t cap = c->streams_cap == 0 ? 8 : 2 * c->streams_cap;
        h2_stream *grown = realloc(c->streams, cap * sizeof *grown);

        if (grown == NULL)
            return NULL;
        c->streams = grown;
        c->streams_cap = cap;
    }
    stream = &c->streams[c->nstreams++];
    *stream = (h2_stream){.id = id,
                          .state = H2_OPEN,
                          .send_window = c->initial_window,
                          .recv_window = H2_STREAM_WINDOW};
    return stream;
}

void note_closed(h2_connection *c, uint32_t id, int how)
{
    c->closed[c->nclosed++ % H2_CLOSED] = id / 2 << 2 | (uint32_t)how;
}

void close_stream(h2_connection *c, h2_stream *stream, int how)
{
    uint32_t place = (uint32_t)(stream - c->streams);

    note_closed(c, stream->id, how);
    c->nstreams--;
    memmove(stream, stream + 1, (c->nstreams - place) * sizeof *stream);
}

int how_closed(const h2_connection *c, uint32_t id)
{
    for (uint32_t i = 0; i < H2_CLOSED && i < c->nclosed; i++) {
        if (c->closed[i] >> 2 == id / 2)
            return (int)(c->closed[i] & 3);
    }
    return LONG_CLOSED;
}

void end_remote(h2_connection *c, h2_stream *stream)
{
    if (stream->state == H2_HALF_CLOSED_LOCAL)
        close_stream(c, stream, ENDED);
    else
        stream->state = H2_HALF_CLOSED_REMOTE;
}

void end_local(h2_connection *c, h2_stream *stream)
{
    if (stream->state == H2_HALF_CLOSED_REMOTE)
        close_stream(c, stream, ENDED);
    else
        stream->state = H2_HALF_CLOSED_LOCAL;
}

/* RFC 9113 6.9.2; returns whether all stay windows. */
int grow_windows(h2_connection *c, int64_t by)
{
    for (uint32_t i = 0; i < c->nstreams; i++) {
        c->streams[i].send_window += by;
        if (c->streams[i].send_window > MAX_WINDOW)
            return 0;
    }
    return 1;
}

uint32_t h2_urgency(const h2_connection *c, uint32_t id)
{
    const h2_stream *stream = stream_of(c, id);

    return stream != NULL ? stream->urgency : H2_URGENCY;
}

void h2_end_input(h2_connection *c)
{
    for (uint32_t i = c->nstreams; i > 0; i--) {
        if (c->streams[i - 1].state != H2_HALF_CLOSED_REMOTE)
            close_stream(c, &c->streams[i - 1], WAS_RESET);
    }
}

void h2_pass_second(h2_connection *c)
{
    c->frames_left += H2_EACH_SECOND;
    if (c->frames_left > H2_BURST)
        c->frames_left = H2_BURST;
    for (uint32_t i = c->nstreams; i > 0; i--) {
        h2_stream *stream = &c->streams[i - 1];

        if (stream->state == H2_HALF_CLOSED_LOCAL &&
            stream->seconds++ >= H2_LINGER_SECONDS)
            h2_reset(c, stream->id, H2_NO_ERROR);
    }
}
