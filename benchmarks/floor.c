/* floor.c -- what the kernel alone asks for one exchange on a kept connection.
 * Usage: floor PORT
 *
 * One thread waits in epoll; each readable connection costs one read and one
 * write of a fixed response.  Nothing is parsed, so a request must arrive
 * whole in one read, as wrk's do.  Requests per CPU second of a server
 * divided by those of this program: its distance from the limit. */
#define _GNU_SOURCE /* accept4 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 2048, EVENTS_PER_WAIT = 256, READ_CAP = 65536 };

/* The fields that the servers send too. */
static const char response[] = "HTTP/1.1 200 OK\r\n"
                               "Content-Type: text/plain\r\n"
                               "Content-Length: 19\r\n"
                               "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
                               "Server: floor\r\n"
                               "\r\n"
                               "My Own Hello World!";

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int watch(int poll_fd, int fd)
{
    struct epoll_event event;

    memset(&event, 0, sizeof event);
    event.events = EPOLLIN;
    event.data.fd = fd;
    return epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event);
}

static int listen_on(unsigned short port)
{
    int yes = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in address;

    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) ||
        bind(fd, (struct sockaddr *)&address, sizeof address) ||
        listen(fd, BACKLOG))
        die("listen");
    return fd;
}

static void accept_all(int poll_fd, int listener)
{
    int yes = 1;
    int fd;

    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) ||
            watch(poll_fd, fd))
            die("accept");
    }
    if (errno != EAGAIN && errno != ECONNABORTED)
        die("accept");
}

static void answer(int fd)
{
    static char request[READ_CAP];
    ssize_t want = sizeof response - 1;

    if (read(fd, request, sizeof request) <= 0 ||
        write(fd, response, sizeof response - 1) != want)
        close(fd);
}

int main(int argc, char **argv)
{
    struct epoll_event ready[EVENTS_PER_WAIT];
    int poll_fd = epoll_create1(0);
    int listener, n, i;

    if (argc != 2) {
        fputs("usage: floor PORT\n", stderr);
        return 2;
    }
    listener = listen_on((unsigned short)atoi(argv[1]));
    if (poll_fd < 0 || watch(poll_fd, listener))
        die("epoll");
    for (;;) {
        n = epoll_wait(poll_fd, ready, EVENTS_PER_WAIT, -1);
        for (i = 0; i < n; i++) {
            if (ready[i].data.fd == listener)
                accept_all(poll_fd, listener);
            else
                answer(ready[i].data.fd);
        }
    }
}
