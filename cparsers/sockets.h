/* sockets.h -- facts about a socket that Python's own module cannot give:
 * PyPy's makes a given descriptor blocking, for all processes that have it.
 * No globals.  Any thread. */
#ifndef ASERVE_SOCKETS_H
#define ASERVE_SOCKETS_H
#include <stdint.h>
/* cdef:begin */

/* Copy the local address of descriptor `fd`, a struct sockaddr, to `out`.
 * Returns its length, at most `cap`; or -1: it is no stream
 * socket. */
int sockets_local_address(int fd, char *out, uint32_t cap);

/* cdef:end */
#endif
