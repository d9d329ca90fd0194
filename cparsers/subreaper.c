/* subreaper.c -- prctl(2), PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG. */
#include "subreaper.h"

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
