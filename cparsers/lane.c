/* lane.c -- accept, read, parse; send, close: a batch at a time. */
#define _GNU_SOURCE /* accept4 */
#include "lane.h"

#include <errno.h>
#include <string.h>

#ifdef __linux__
#include <sys/socket.h>
#include <unistd.h>

int lane_available(void)
{
    return 1;
}

/* Parse what one connection sent; the caller has set input_off and _len. */
static void parse_arrival(lane_batch *lane, lane_arrival *arrival)
{
    const char *input = lane->input + arrival->input_off;
    char *vars = lane->vars + lane->vars_len;
    uint32_t vars_cap = lane->vars_cap - lane->vars_len;

    if (lane->protocol == LANE_UWSGI) {
        uwsgi_packet packet = {.vars = vars,
                               .vars_cap = vars_cap,
                               .max_packet_len = lane->max_head_len,
                               .max_vars = lane->max_vars};
        arrival->consumed =
            uwsgi_parse_packet(input, arrival->input_len, &packet);
        arrival->content_length = packet.content_length;
        arrival->vars_len = packet.vars_len;
        arrival->nvars = packet.nvars;
        arrival->modifier1 = packet.modifier1;
    } else {
        scgi_head head = {.vars = vars,
                          .vars_cap = vars_cap,
                          .max_head_len = lane->max_head_len,
                          .max_vars = lane->max_vars};
        arrival->consumed = scgi_parse_head(input, arrival->input_len, &head);
        arrival->content_length = head.content_length;
        arrival->vars_len = head.vars_len;
        arrival->nvars = head.nvars;
        arrival->modifier1 = 0;
    }
    arrival->vars_off = lane->vars_len;
    if (arrival->consumed > 0 && arrival->vars_len > 0) {
        lane->vars_len += arrival->vars_len;
        lane->vars[lane->vars_len++] = '\0';
    }
}

/* Read what is there, up to `cap` octets; a short read means there is no
 * more, so that most connections cost one recv. */
static uint32_t read_some(int fd, char *dst, uint32_t cap)
{
    ssize_t got = recv(fd, dst, cap, 0);

    return got > 0 ? (uint32_t)got : 0;
}

int lane_accept(lane_batch *lane)
{
    uint32_t n = 0, input_len = 0;

    lane->vars_len = 0;
    lane->accept_errno = 0;
    while (n < lane->arrivals_cap &&
           lane->input_cap - input_len >= lane->read_cap &&
           lane->vars_cap - lane->vars_len > lane->max_head_len + 1) {
        lane_arrival *arrival = &lane->arrivals[n];
        int fd =
            accept4(lane->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0) {
            lane->accept_errno = errno;
            break;
        }
        memset(arrival, 0, sizeof *arrival);
        arrival->fd = fd;
        arrival->input_off = input_len;
        arrival->input_len =
            read_some(fd, lane->input + input_len, lane->read_cap);
        input_len += arrival->input_len;
        arrival->consumed = ASERVE_INCOMPLETE;
        if (arrival->input_len > 0)
            parse_arrival(lane, arrival);
        n++;
    }
    return (int)n;
}

int lane_send(const char *fds, const char *lens, uint32_t n,
              const char *octets, int32_t *sent)
{
    int open = 0;

    for (uint32_t i = 0; i < n; i++) {
        int32_t fd;
        uint32_t len;
        ssize_t took;

        memcpy(&fd, fds + i * sizeof fd, sizeof fd);
        memcpy(&len, lens + i * sizeof len, sizeof len);
        took = send(fd, octets, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (took == (ssize_t)len) {
            close(fd);
            sent[i] = -1;
        } else {
            sent[i] = took > 0 ? (int32_t)took : 0;
            open++;
        }
        octets += len;
    }
    return open;
}

#else

int lane_available(void)
{
    return 0;
}

int lane_accept(lane_batch *lane)
{
    lane->accept_errno = ENOSYS;
    return 0;
}

int lane_send(const char *fds, const char *lens, uint32_t n,
              const char *octets, int32_t *sent)
{
    (void)fds;
    (void)lens;
    (void)octets;
    memset(sent, 0, n * sizeof *sent);
    return (int)n;
}

#endif
