/* subreaper.h -- the new parent of processes whose parent has ended.
 * No globals of its own: these are properties of the process, kept over
 * execve(2), and not inherited by children.  Any thread. */
#ifndef ASERVE_SUBREAPER_H
#define ASERVE_SUBREAPER_H
/* cdef:begin */

/* Let all such descendants become this process's own children.
 * Returns 0; or -1: this system cannot do that. */
int subreaper_begin(void);

/* Have the kernel send this process a signal when its parent ends; the
 * parent must have one thread, whose end it is.
 * Returns 0; or -1: this system cannot do that. */
int parent_death_signal(int number);

/* cdef:end */
#endif
