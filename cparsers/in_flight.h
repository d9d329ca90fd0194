/* in_flight.h -- a process's running requests, in memory that outlives it.
 * Another process reads it, after a crash.  No I/O. */
#ifndef ASERVE_IN_FLIGHT_H
#define ASERVE_IN_FLIGHT_H
#include <stdint.h>
/* cdef:begin */

enum { IN_FLIGHT_TEXT_CAP = 88 };

/* One request. */
typedef struct {
    char text[88]; /* "METHOD target", cut off there; ends in NUL if shorter */
    uint64_t since; /* in microseconds, not 0; 0: no request; atomic */
} in_flight_entry;

/* Write the method and the target of a vars block; `since` stays as it is.
 * A part that the block lacks is "-". */
void in_flight_describe(in_flight_entry *entry, const char *vars,
                        uint32_t vars_len);

/* Begin a request, or end it (0). */
void in_flight_set(in_flight_entry *entry, uint64_t since);

/* cdef:end */
#endif
