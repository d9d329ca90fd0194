/* tls_context.c -- OpenSSL's functions, found by name; and contexts: what a
 * server is, and what it offers. */
#define _GNU_SOURCE /* POSIX beside C99 */
#include "tls.h"

#ifdef __linux__
#include "tls_library.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum {
    CTRL_MODE = 33, /* SSL_CTRL_..., openssl/ssl.h */
    CTRL_SET_MIN_PROTO_VERSION = 123,
    AUTO_RETRY = 0x04,      /* SSL_MODE_...: as Python's, */
    RELEASE_BUFFERS = 0x10, /* and 34 KiB less for a connection at rest */
    PEM = 1,                /* SSL_FILETYPE_PEM */
    ALPN_OK = 0,            /* SSL_TLSEXT_ERR_... */
    ALPN_FATAL = 2
};

tls_library tls_lib;

static int find(void *handle, const char *name, void *to)
{
    void *found = dlsym(handle, name);

    memcpy(to, &found, sizeof found); /* C99 has no such conversion */
    return found != NULL;
}

const char *tls_open(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (handle == NULL)
        return path;
    if (sizeof(long) < 8) /* SSL_CTX_set_options has two forms there */
        return "64 bits";
#define TLS_FIND(result, name, arguments)                                     \
    if (!find(handle, #name, &tls_lib.name))                                  \
        return #name;
    TLS_FUNCTIONS(TLS_FIND)
    return tls_open_bio() == 0 ? NULL : "memory";
}

/* OpenSSL would ask for it on the terminal. */
static int refuse_passphrase(char *to, int cap, int is_new, void *unused)
{
    (void)to, (void)cap, (void)is_new, (void)unused;
    return 0;
}

/* RFC 7301 3.2: the server chooses; a client without any of them is refused. */
static int select_protocol(void *ssl, const unsigned char **chosen,
                           unsigned char *chosen_len,
                           const unsigned char *offered, unsigned offered_len,
                           void *of)
{
    const tls_context *context = of;

    (void)ssl;
    for (uint32_t i = 0; i < context->protocols_len;
         i += 1u + context->protocols[i]) {
        const unsigned char *own = context->protocols + i;

        for (unsigned k = 0; k < offered_len; k += 1u + offered[k])
            if (offered[k] == own[0] && k + own[0] < offered_len &&
                memcmp(offered + k, own, 1u + own[0]) == 0) {
                *chosen = offered + k + 1;
                *chosen_len = own[0];
                return ALPN_OK;
            }
    }
    return ALPN_FATAL;
}

static int configure(tls_context *context, const char *chain, const char *key,
                     const char *ciphers, uint32_t minimum, uint64_t options)
{
    void *ctx = context->ssl_ctx;

    tls_lib.SSL_CTX_set_options(ctx, options);
    tls_lib.SSL_CTX_ctrl(ctx, CTRL_MODE, AUTO_RETRY | RELEASE_BUFFERS, NULL);
    tls_lib.SSL_CTX_set_default_passwd_cb(ctx, refuse_passphrase);
    if (context->protocols_len > 0)
        tls_lib.SSL_CTX_set_alpn_select_cb(ctx, select_protocol, context);
    return tls_lib.SSL_CTX_ctrl(ctx, CTRL_SET_MIN_PROTO_VERSION, (long)minimum,
                                NULL) == 1 &&
           tls_lib.SSL_CTX_set_cipher_list(ctx, ciphers) == 1 &&
           tls_lib.SSL_CTX_use_certificate_chain_file(ctx, chain) == 1 &&
           tls_lib.SSL_CTX_use_PrivateKey_file(ctx, key, PEM) == 1 &&
           tls_lib.SSL_CTX_check_private_key(ctx) == 1;
}

tls_context *tls_context_new(const char *chain, const char *key,
                             const char *ciphers, uint32_t minimum,
                             uint64_t options, const char *protocols,
                             uint32_t protocols_len)
{
    tls_context *context = calloc(1, sizeof *context);

    if (context == NULL || protocols_len > sizeof context->protocols) {
        free(context);
        return NULL;
    }
    context->nusers = 1;
    context->protocols_len = protocols_len;
    memcpy(context->protocols, protocols, protocols_len);
    tls_lib.ERR_clear_error();
    context->ssl_ctx = tls_lib.SSL_CTX_new(tls_lib.TLS_server_method());
    if (context->ssl_ctx == NULL ||
        !configure(context, chain, key, ciphers, minimum, options)) {
        tls_context_free(context);
        context = NULL;
    }
    tls_lib.ERR_clear_error(); /* Python's ssl module looks there, too */
    return context;
}

void tls_context_share(tls_context *context)
{
    __atomic_add_fetch(&context->nusers, 1, __ATOMIC_RELAXED);
}

void tls_context_free(tls_context *context)
{
    if (__atomic_sub_fetch(&context->nusers, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    tls_lib.SSL_CTX_free(context->ssl_ctx);
    free(context);
}

#endif
