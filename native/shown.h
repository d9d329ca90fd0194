/* shown.h -- text that grows, as a log may hold it.
 *
 * A function that puts text returns 0, without an exception, when there is no
 * memory, or Python has to do it: the caller removes the text put by then
 * (`size`). */
#ifndef NATIVE_SHOWN_H
#define NATIVE_SHOWN_H

#include "text.h"

typedef struct {
    char *at;
    size_t size, cap;
    int is_json; /* how octets are escaped */
} shown;

int shown_put(shown *self, octets of);

/* As escape of core/exchange.py has it, or _escape_json of features/access_log/log_format.py.  Returns
 * 0: Python has to decode it, or there is no memory. */
int shown_put_escaped(shown *self, octets of);

int shown_put_number(shown *self, size_t of);

/* With six digits, or `is_exact`: as repr has it. */
int shown_put_seconds(shown *self, double of, int is_exact);

/* Of a part of a second, three digits. */
int shown_put_millis(shown *self, double part);

#endif
