/* host.h -- the check of a host, shared by Host and absolute-form. */
#ifndef ASERVE_HOST_H
#define ASERVE_HOST_H
#include "aserve.h"

/* Check [p, end): uri-host [ ":" port ], the host not empty.
 * Returns 0 or ASERVE_BAD_HOST. */
int check_host(const char *p, const char *end);

#endif
