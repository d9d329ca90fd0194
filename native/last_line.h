/* last_line.h -- the previous line, and its request: many clients repeat the
 * same request.
 *
 * The twin is the cache of a second in LineFormat. */
#ifndef NATIVE_LAST_LINE_H
#define NATIVE_LAST_LINE_H

#include "line_values.h"

enum { LAST_MAX = 4096 }; /* octets of a request and its line */

typedef struct {
    int is_front, is_gone, status;
    size_t size;
    PyObject *changes;
    octets addr, vars, line; /* of `kept`; no line: there is none */
    char kept[LAST_MAX];
} last_line;

/* Whether a request has the same line; its times and names are not looked at. */
static inline int last_line_is(const last_line *self, const line_end *end)
{
    return self->line.size > 0 && self->status == end->status &&
           self->size == end->size && self->is_gone == end->is_gone &&
           self->changes == end->changes && self->is_front == end->is_front &&
           is_equal(self->vars, end->vars) && is_equal(self->addr, end->addr);
}

void last_line_keep(last_line *self, const line_end *end, octets line);
void last_line_clear(last_line *self);

#endif
