/* tls_none.c -- where there is no lane: no sessions. */
#include "tls.h"

#ifndef __linux__
#include <stddef.h>

const char *tls_open(const char *path)
{
    (void)path;
    return "epoll";
}

tls_context *tls_context_new(const char *chain, const char *key,
                             const char *ciphers, uint32_t minimum,
                             uint64_t options, const char *protocols,
                             uint32_t protocols_len)
{
    (void)chain;
    (void)key;
    (void)ciphers;
    (void)minimum;
    (void)options;
    (void)protocols;
    (void)protocols_len;
    return NULL;
}

void tls_context_free(tls_context *context)
{
    (void)context;
}

void tls_context_share(tls_context *context)
{
    (void)context;
}

tls_session *tls_begin(tls_context *context)
{
    (void)context;
    return NULL;
}

void tls_end(tls_session *session)
{
    (void)session;
}

int tls_feed(tls_session *session, const char *octets, uint32_t len)
{
    (void)session;
    (void)octets;
    (void)len;
    return 0;
}

int tls_shake(tls_session *session)
{
    (void)session;
    return 0;
}

const char *tls_hello(const tls_session *session)
{
    (void)session;
    return NULL;
}

uint32_t tls_hello_len(const tls_session *session)
{
    (void)session;
    return 0;
}

int tls_read(tls_session *session, char *to, uint32_t cap)
{
    (void)session;
    (void)to;
    (void)cap;
    return 0;
}

int tls_write(tls_session *session, const char *from, uint32_t len)
{
    (void)session;
    (void)from;
    (void)len;
    return 0;
}

int64_t tls_push(tls_session *session, int fd, const char *from, uint32_t len)
{
    (void)session;
    (void)fd;
    (void)from;
    (void)len;
    return TLS_GONE;
}

void tls_shut(tls_session *session)
{
    (void)session;
}

int tls_has_input(const tls_session *session)
{
    (void)session;
    return 0;
}

const char *tls_out(const tls_session *session)
{
    (void)session;
    return NULL;
}

uint32_t tls_out_len(const tls_session *session)
{
    (void)session;
    return 0;
}

void tls_clear_out(tls_session *session)
{
    (void)session;
}

const char *tls_why(const tls_session *session)
{
    (void)session;
    return NULL;
}

const char *tls_version(const tls_session *session)
{
    (void)session;
    return NULL;
}

const char *tls_cipher(const tls_session *session)
{
    (void)session;
    return NULL;
}

uint32_t tls_alpn(const tls_session *session, char *to, uint32_t cap)
{
    (void)session;
    (void)to;
    (void)cap;
    return 0;
}

#endif
