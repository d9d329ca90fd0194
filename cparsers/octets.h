/* octets.h -- a run of octets inside one source; never part of an interface
 * to Python, where runs are offsets (aserve_span). */
#ifndef ASERVE_OCTETS_H
#define ASERVE_OCTETS_H
#include <stddef.h>
#include <string.h>
#include "chars.h"

/* The octets [p, end) of the input. */
typedef struct {
    const char *p;
    const char *end;
} octets;

static inline size_t length(octets run)
{
    return (size_t)(run.end - run.p);
}

/* True when `run`, made of field octets, is `text` in any case.  `text` has
 * only lower-case letters, digits and '-', for which bit 5 is the case or
 * set anyhow. */
static inline int is_text(octets run, const char *text)
{
    const char *p = run.p;

    while (p < run.end && *text != '\0' && (*p | 0x20) == *text) {
        p++;
        text++;
    }
    return p == run.end && *text == '\0';
}

/* True when `run` is `text`, octet by octet. */
static inline int is_exactly(octets run, const char *text)
{
    return length(run) == strlen(text) &&
           memcmp(run.p, text, length(run)) == 0;
}

/* Read the digits at p, which may be none, into *number.
 * Returns where they end; NULL if the number is above 2^63 - 1. */
static inline const char *read_number(const char *p, const char *end,
                                      uint64_t *number)
{
    uint64_t sum = 0;

    while (p < end && *p >= '0' && *p <= '9') {
        uint64_t digit = (uint64_t)(*p++ - '0');

        if (sum > (INT64_MAX - digit) / 10)
            return NULL;
        sum = sum * 10 + digit;
    }
    *number = sum;
    return p;
}

static inline const char *skip_tchars(const char *p, const char *end)
{
    while (p < end && tchar[(uint8_t)*p])
        p++;
    return p;
}

#endif
