/* subreaper.c -- prctl(2), PR_SET_CHILD_SUBREAPER. */
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
