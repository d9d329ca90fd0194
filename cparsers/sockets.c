/* sockets.c -- getsockname(2). */
#include "sockets.h"

#include <sys/socket.h>

int sockets_local_address(int fd, char *out, uint32_t cap)
{
    socklen_t len = cap;
    int type;
    socklen_t type_len = sizeof type;

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) != 0 ||
        type != SOCK_STREAM)
        return -1;
    /* POSIX: at most `len` octets are written, but `len` becomes the whole
     * length. */
    if (getsockname(fd, (struct sockaddr *)(void *)out, &len) != 0)
        return -1;
    return (int)(len < cap ? len : cap);
}
