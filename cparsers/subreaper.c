/* subreaper.c -- prctl(2), PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG;
 * sigaltstack(2). */
#define _GNU_SOURCE /* POSIX beside C99 */
#include "subreaper.h"

#include <signal.h>
#include <stdlib.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

int subreaper_begin(void)
{
#ifdef PR_SET_CHILD_SUBREAPER
    return prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL) == 0 ? 0 : -1;
#else
    return -1;
#endif
}

int parent_death_signal(int number)
{
#ifdef PR_SET_PDEATHSIG
    return prctl(PR_SET_PDEATHSIG, (unsigned long)number, 0UL, 0UL, 0UL) == 0
               ? 0
               : -1;
#else
    (void)number;
    return -1;
#endif
}

int signal_stack(size_t octets)
{
    stack_t stack = {
        .ss_sp = malloc(octets), .ss_flags = 0, .ss_size = octets};

    if (stack.ss_sp != NULL && sigaltstack(&stack, NULL) == 0)
        return 0;
    free(stack.ss_sp);
    return -1;
}

uintptr_t signal_handler(int number)
{
    struct sigaction action;

    return sigaction(number, NULL, &action) == 0 ? (uintptr_t)action.sa_handler
                                                 : 0;
}
