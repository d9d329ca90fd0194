/* subreaper.h -- the new parent of processes whose parent has ended,
 * and other properties of a process.
 * No globals of its own: these are properties of the process, kept over
 * execve(2), and not inherited by children.  Any thread. */
#ifndef ASERVE_SUBREAPER_H
#define ASERVE_SUBREAPER_H

#include <stddef.h>
#include <stdint.h>

/* cdef:begin */

/* Let all such descendants become this process's own children.
 * Returns 0; or -1: this system cannot do that. */
int subreaper_begin(void);

/* Have the kernel send this process a signal when its parent ends; the
 * parent must have one thread, whose end it is.
 * Returns 0; or -1: this system cannot do that. */
int parent_death_signal(int number);

/* Give this thread's signal handlers a stack of so many octets, for good.
 * Returns 0; or -1: there is no memory. */
int signal_stack(size_t octets);

/* Return the address of the function that handles a signal: for each that
 * Python handles, the same; 0, 1: the default, ignored. */
uintptr_t signal_handler(int number);

/* cdef:end */
#endif
