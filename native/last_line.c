/* last_line.c -- the previous line, and its request. */
#include "last_line.h"

static octets keep(last_line *self, size_t *used, octets from)
{
    char *to = self->kept + *used;

    *used += from.size;
    text_put(to, from);
    return (octets){to, from.size};
}

void last_line_keep(last_line *self, const line_end *end, octets line)
{
    size_t used = 0;

    self->line.size = 0;
    if (end->addr.size + end->vars.size + line.size > LAST_MAX)
        return;
    self->is_front = end->is_front;
    self->status = end->status;
    self->size = end->size;
    self->is_gone = end->is_gone;
    Py_XINCREF(end->changes);
    Py_XSETREF(self->changes, end->changes);
    self->addr = keep(self, &used, end->addr);
    self->vars = keep(self, &used, end->vars);
    self->line = keep(self, &used, line);
}

void last_line_clear(last_line *self)
{
    self->line.size = 0;
    Py_CLEAR(self->changes);
}
