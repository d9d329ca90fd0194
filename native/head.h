/* head.h -- status and fields that the app gives: checked, and encoded.
 *
 * The twin is aserve/wsgi/head.py, build_app_head: for the same arguments both
 * make the same octets, or this one says "not plain" and the twin is asked,
 * which also has the texts of the errors. */
#ifndef NATIVE_HEAD_H
#define NATIVE_HEAD_H

#include "text.h"

/* The facts about a head that was made. */
typedef struct {
    uint32_t size;    /* octets */
    int code;         /* of the status */
    long long length; /* Content-Length; -1: not given */
} head_facts;

/* Write the app's part of a head: `prefix` and the status, CR LF, and a line
 * for each field.  `cap` is below 2^32.  Returns 1; 0, without an exception:
 * not plain, and the octets at `to` mean nothing. */
int head_make(char *to, size_t cap, octets prefix, PyObject *status,
              PyObject *headers, head_facts *facts);

#endif
