/* lane_none.c -- where there is no epoll: no lane. */
#include "lane.h"

#ifndef __linux__
#include <errno.h>

int lane_available(void)
{
    return 0;
}

int lane_open(lane *set)
{
    (void)set;
    return ENOSYS;
}

void lane_close(lane *set)
{
    (void)set;
}

void lane_unlisten(lane *set, uint32_t i)
{
    (void)set;
    (void)i;
}

int lane_poll(lane *set, int timeout_ms)
{
    (void)set;
    (void)timeout_ms;
    return 0;
}

int lane_look(lane *set)
{
    (void)set;
    return 0;
}

void lane_renew(lane *set, uint32_t i, tls_context *context)
{
    (void)set;
    (void)i;
    (void)context;
}

void lane_begin(lane *set, int fd, int keep)
{
    (void)set;
    (void)fd;
    (void)keep;
}

int lane_release_shaking(lane *set, uint32_t seconds, lane_released *out,
                         uint32_t cap)
{
    (void)set;
    (void)seconds;
    (void)out;
    (void)cap;
    return 0;
}

void lane_watch(lane *set)
{
    (void)set;
}

void lane_wake(lane *set)
{
    (void)set;
}

int lane_reply(lane *set, int fd, const char *head, uint32_t head_len,
               const char *body, uint32_t body_len, int keep)
{
    (void)set;
    (void)fd;
    (void)head;
    (void)head_len;
    (void)body;
    (void)body_len;
    (void)keep;
    return -1;
}

int64_t lane_send(lane *set, int fd, const lane_part *parts, uint32_t count)
{
    (void)set;
    (void)fd;
    (void)parts;
    (void)count;
    return -1;
}

int lane_holds(lane *set, int fd)
{
    (void)set;
    (void)fd;
    return 0;
}

tls_session *lane_session(const lane *set, int fd)
{
    (void)set;
    (void)fd;
    return NULL;
}

tls_session *lane_take_session(lane *set, int fd)
{
    (void)set;
    (void)fd;
    return NULL;
}

int lane_has_left(lane *set, int fd)
{
    (void)set;
    (void)fd;
    return 0;
}

int lane_release(lane *set, int fd)
{
    (void)set;
    (void)fd;
    return 0;
}

int lane_release_idle(lane *set, lane_released *out, uint32_t cap)
{
    (void)set;
    (void)out;
    (void)cap;
    return 0;
}

int lane_own(lane *set, int fd)
{
    (void)set;
    (void)fd;
    return 0;
}

void lane_left(lane *set)
{
    (void)set;
}

int lane_adopt(lane *set, int fd, uint32_t i, tls_session *session,
               int is_used)
{
    (void)session;
    (void)is_used;
    (void)set;
    (void)fd;
    (void)i;
    return 0;
}

int lane_sweep(lane *set, int used_seconds, int new_seconds)
{
    (void)set;
    (void)used_seconds;
    (void)new_seconds;
    return 0;
}

int lane_evict_idle(lane *set)
{
    (void)set;
    return 0;
}

lane_h2 *lane_h2_new(uint32_t max_section_bytes)
{
    (void)max_section_bytes;
    return NULL;
}

void lane_h2_free(lane_h2 *h2)
{
    (void)h2;
}

int lane_new_carrier(lane *set)
{
    (void)set;
    return -1;
}

int lane_feed_carrier(lane *set, int number, const char *octets, uint32_t len)
{
    (void)set;
    (void)number;
    (void)octets;
    (void)len;
    return 0;
}

int lane_adopt_carrier(lane *set, int number, int fd, uint32_t i,
                       tls_session *session, int is_used, h2_connection *h2)
{
    (void)number;
    (void)h2;
    return lane_adopt(set, fd, i, session, is_used);
}

int lane_due_carriers(lane *set, int used_seconds, int new_seconds,
                      int32_t *numbers, uint32_t cap)
{
    (void)set;
    (void)used_seconds;
    (void)new_seconds;
    (void)numbers;
    (void)cap;
    return 0;
}

int lane_carrier_of(lane *set, int number)
{
    (void)set;
    (void)number;
    return 0;
}

int lane_release_carrier(lane *set, int number)
{
    (void)set;
    (void)number;
    return -1;
}

void lane_take_carrier(lane *set, int number, h2_connection *to)
{
    (void)set;
    (void)number;
    (void)to;
}

int lane_next_remains(lane *set, int number, lane_remains *remains)
{
    (void)set;
    (void)number;
    (void)remains;
    return 0;
}

uint32_t lane_running(lane *set, int number)
{
    (void)set;
    (void)number;
    return 0;
}

int64_t lane_taken(lane *set, int number)
{
    (void)set;
    (void)number;
    return -1;
}

int lane_keep(lane *set, int number, const char *head, uint32_t head_len,
              const char *body, uint64_t body_len)
{
    (void)set;
    (void)number;
    (void)head;
    (void)head_len;
    (void)body;
    (void)body_len;
    return LANE_UNSENT;
}

uint32_t lane_take_stream(lane *set, int number)
{
    (void)set;
    (void)number;
    return 0;
}

void lane_drop_carrier(lane *set, int number)
{
    (void)set;
    (void)number;
}

void lane_let_go(lane *set, int number)
{
    (void)set;
    (void)number;
}

void lane_flush(lane *set)
{
    (void)set;
}

#endif
