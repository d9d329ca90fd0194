/* counts.h -- counts of plain requests, until Python's counters take them.
 *
 * The twin is Counters.write of aserve/features/metrics/counting.py, which keeps the
 * words; here are the latest increments. */
#ifndef NATIVE_COUNTS_H
#define NATIVE_COUNTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

enum {
    COUNTS_CLASSES = 10, /* hundreds of a status */
    COUNTS_BUCKETS = 32  /* at most, that for longer times among them */
};

typedef struct {
    /* places of the counters' words */
    int by_class[COUNTS_CLASSES]; /* answered; the next one: not so */
    int octets;
    int waits; /* the first bucket */
    int runs;
    int nbuckets; /* without that for longer times; behind it is the sum */
    /* since the last counts_take */
    Py_ssize_t count; /* of requests */
    unsigned long long size;
    unsigned long ended[COUNTS_CLASSES][2];
    unsigned long waited[COUNTS_BUCKETS];
    unsigned long run[COUNTS_BUCKETS];
    double waited_seconds;
    double run_seconds;
} counts;

/* places: (by class: a tuple, octets, waits, runs, buckets), or None.  NULL:
 * there is no counter, or with an exception. */
counts *counts_new(PyObject *places);

/* Count a request of `size` octets that waited and ran for these seconds;
 * `was_timed` 0: the times are not known. */
void counts_add(counts *to, int status, int is_cut, size_t size, int was_timed,
                double wait, double run);

/* Return the increments, (a list of (place, by), seconds that threads spent
 * in requests), and forget them. */
PyObject *counts_take(counts *from);

#endif
