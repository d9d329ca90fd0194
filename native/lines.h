/* lines.h -- the access log's lines of plain requests.
 *
 * The twin is LineFormat of aserve/features/access_log/log_format.py; what is made here of a
 * format, aserve/features/access_log/line_program.py says.  Used under the GIL. */
#ifndef NATIVE_LINES_H
#define NATIVE_LINES_H

#include "line_values.h"

typedef struct lines lines;

int lines_init(void);

/* As Program of features/access_log/line_program.py.  NULL: with an exception. */
lines *lines_new(PyObject *program);
void lines_free(lines *self);

/* Learn what a line needs that Python says: what is the same for all of a
 * second, and the thread's name.  May run other threads.  Returns -1 with an
 * exception. */
int lines_prepare(lines *self, double ended_at, unsigned long thread_id);

/* Add a line.  Returns 0, without an exception, when it is not plain: nothing
 * was added. */
int lines_add(lines *self, const line_end *of);

/* How many there are since the last lines_take. */
Py_ssize_t lines_count(const lines *self);

/* Return what was added, bytes in UTF-8, and forget it. */
PyObject *lines_take(lines *self);

#endif
