/* lines.h -- the access log's lines of plain requests.
 *
 * The twin is LineFormat of features/access_log/log_format.py; line_program.py
 * beside it decides which formats are made here.  Used under the GIL. */
#ifndef NATIVE_LINES_H
#define NATIVE_LINES_H

#include "line_values.h"

typedef struct lines lines;

int lines_init(void);

/* As Program of features/access_log/line_program.py.  NULL: with an exception. */
lines *lines_new(PyObject *program);
void lines_free(lines *self);

/* Get the values of a line that Python makes: those that all lines of a second
 * share, and the thread's name.  May run other threads.  Returns -1 with an
 * exception. */
int lines_prepare(lines *self, const line_end *of);

/* Add a line.  Returns 0, without an exception, when it is not plain: nothing
 * was added. */
int lines_add(lines *self, const line_end *of);

/* How many there are since the last lines_take. */
Py_ssize_t lines_count(const lines *self);

/* Return the added lines, bytes in UTF-8, and forget them. */
PyObject *lines_take(lines *self);

#endif
