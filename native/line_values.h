/* line_values.h -- the values that a line of the access log shows.
 *
 * The twin is aserve/features/access_log/log_values.py. */
#ifndef NATIVE_LINE_VALUES_H
#define NATIVE_LINE_VALUES_H

#include "text.h"

/* The values of a line. */
typedef struct {
    octets vars;
    int is_front;
    octets addr;
    PyObject *changes; /* of the vars, by a proxy's words, or NULL */
    octets made_id;    /* empty: it came, or it is not named */
    int status;
    size_t size;       /* octets of the body */
    int is_gone;       /* its client */
    double arrived_at; /* as time.monotonic() has it; 0.0: not needed */
    double began_at;
    double ended_at;
    unsigned long thread_id;
    /* Of its PyThreadState: no later thread gets it, as it may get the id. */
    uint64_t thread_key;
} line_end;

/* In the order of KINDS of features/access_log/line_program.py. */
enum {
    A_TEXT,
    A_SECOND, /* a value that all lines of a second share */
    A_MILLIS, /* of the second, three digits */
    A_FIELD,
    A_REQUEST_ID,
    A_USER,
    A_REQUEST,
    A_METHOD,
    A_URI,
    A_PATH, /* of the target */
    A_PATH_INFO,
    A_QUERY_OR_NONE, /* as the vars have it */
    A_QUERY,
    A_PROTO,
    A_VERSION,
    A_ADDR,
    A_CLIENT, /* the same; nothing, if it is not known */
    A_STATUS,
    A_STATUS_OR_NONE, /* none: there was no response, but a reply to a call */
    A_SIZE,
    A_SIZE_OR_DASH,
    A_END,
    A_SECS,
    A_MSECS,
    A_MICROS,
    A_DURATION,
    A_QUEUE_WAIT,
    A_THREAD,
    KIND_COUNT
};

/* Where the request's own are found. */
enum {
    LINE_METHOD,
    LINE_URI,
    LINE_PATH_INFO,
    LINE_QUERY,
    LINE_PROTO,
    LINE_ADDR,
    LINE_DOCUMENT_URI,
    LINE_OWN_COUNT
};

enum { LINE_AUTHORIZATION = 0, LINE_NAMES_MAX = 32 };

/* Variables that are looked for: of A_FIELD, A_REQUEST_ID, A_USER. */
typedef struct {
    int count;
    PyObject *names[LINE_NAMES_MAX]; /* str */
    octets octets[LINE_NAMES_MAX];   /* of these */
} line_names;

/* The facts about a request. */
typedef struct {
    const line_end *end;
    octets own[LINE_OWN_COUNT]; /* .at NULL: it has none */
    octets found[LINE_NAMES_MAX];
    octets addr;
    octets thread;
} line_request;

/* VALUE_PYTHONS: Python has to find it. */
enum { VALUE_NONE, VALUE_TEXT, VALUE_NUMBER, VALUE_SECONDS, VALUE_PYTHONS };

typedef struct {
    int type;
    octets text;
    size_t number;
    double seconds;
} line_shown;

/* The place of a name, which is added.  Returns -1 with an exception. */
int line_name(line_names *self, PyObject *name);
void line_names_clear(line_names *self);

/* Find all of `of->end` but the thread.  Returns 0: there is something unusual
 * about the vars. */
int line_find(line_request *of, const line_names *names);

/* `at`: the place of the variable, for those kinds that have one. */
line_shown line_value(const line_request *of, int kind, int at);

#endif
