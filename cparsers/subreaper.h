/* subreaper.h -- whose children become those whose own parent has ended.
 * No globals of its own: it is a property of the process, kept over
 * execve(2), and not inherited by children.  Any thread. */
#ifndef ASERVE_SUBREAPER_H
#define ASERVE_SUBREAPER_H
/* cdef:begin */

/* Let all such descendants become this process's own children.
 * Returns 0; or -1: this system cannot do that. */
int subreaper_begin(void);

/* cdef:end */
#endif
