/* environ.c -- from the vars block to the environ of PEP 3333. */
#include "environ.h"

int environ_init(void)
{
    return 0;
}

PyObject *environ_new(environ_cache *cache, PyObject *base,
                      const environ_request *request, uint32_t *section)
{
    (void)cache, (void)base, (void)request, (void)section;
    return NULL;
}

void environ_clear(environ_cache *cache)
{
    (void)cache;
}
