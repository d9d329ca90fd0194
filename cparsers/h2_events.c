/* h2_events.c -- what the caller is told, and what a fault ends (RFC 9113 5.4). */
#include "h2_parts.h"

#include <stdio.h>
#include <string.h>

h2_event *add_event(h2_found *found, uint32_t kind, uint32_t id,
                    uint32_t number)
{
    h2_event *event = &found->events[found->count++];

    *event = (h2_event){kind, id, 0, number, {found->text_len, 0}};
    return event;
}

void add_text(h2_found *found, h2_event *event, const void *text, size_t len)
{
    if (len > 0)
        memcpy(found->text + found->text_len, text, len);
    event->text.len += (uint32_t)len;
    found->text_len += (uint32_t)len;
}

/* RFC 9113 5.4.1 */
void fail_connection(const arrival *a, uint32_t code, const char *why)
{
    h2_connection *c = a->c;

    if (c->state == H2_OVER)
        return;
    c->state = H2_OVER;
    put_goaway(c, c->last_served, code);
    add_text(a->found, add_event(a->found, H2_FAILED, 0, code), why,
             strlen(why));
}

void spend_frame(const arrival *a)
{
    if (a->c->frames_left == 0)
        fail_connection(a, H2_ENHANCE_YOUR_CALM,
                        "the client floods it with frames");
    else
        a->c->frames_left--;
}

/* RFC 9113 5.4.2: the stream is over, the connection is not. */
void reset_stream(const arrival *a, h2_stream *stream, uint32_t code)
{
    add_event(a->found, H2_RESET, stream->id, code);
    h2_reset(a->c, stream->id, code);
    spend_frame(a);
}

/* RFC 9113 8.1.1 */
void refuse_request(const arrival *a, const h2_section *section,
                    const char *why)
{
    h2_event *event =
        add_event(a->found, H2_REFUSED, a->id, H2_PROTOCOL_ERROR);
    h2_stream *stream = stream_of(a->c, a->id);
    char text[128];
    int n = section != NULL && section->what.len > 0
                ? snprintf(text, sizeof text, "the field %.*s%s",
                           (int)section->what.len,
                           section->text + section->what.off, why)
                : snprintf(text, sizeof text, "%s", why);

    add_text(a->found, event, text, (size_t)n);
    if (stream != NULL)
        close_stream(a->c, stream, RESET_BY_US);
    else
        note_closed(a->c, a->id, RESET_BY_US);
    put_number(a->c, RST_STREAM, a->id, H2_PROTOCOL_ERROR);
    spend_frame(a);
}
