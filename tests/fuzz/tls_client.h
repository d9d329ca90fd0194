/* tls_client.h -- the other side of a session: OpenSSL's client, whose functions
 * are found by name, as tls.h finds those of the server.  server.pem is the
 * certificate, and the key, of no server. */
#ifndef TLS_CLIENT_H
#define TLS_CLIENT_H
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include "tls_library.h"

#define CLIENT_FUNCTIONS(X)                                                   \
    X(const void *, TLS_client_method, (void))                                \
    X(void, SSL_set_connect_state, (void *))                                  \
    X(long, SSL_ctrl, (void *, int, long, void *))                            \
    X(int, SSL_set_fd, (void *, int))                                         \
    X(int, SSL_set_alpn_protos, (void *, const unsigned char *, unsigned))    \
    X(const void *, BIO_s_mem, (void))                                        \
    X(int, BIO_read, (void *, void *, int))                                   \
    X(int, BIO_write, (void *, const void *, int))                            \
    X(int, RAND_set_rand_method, (const void *))                              \
    X(int, CRYPTO_set_mem_functions,                                          \
      (void *(*)(size_t, const char *, int),                                  \
       void *(*)(void *, size_t, const char *, int),                          \
       void (*)(void *, const char *, int)))

static struct {
    CLIENT_FUNCTIONS(TLS_POINTER)
} client_lib;

/* Find the functions of both sides.  Returns 0 where there is no OpenSSL. */
static inline int open_openssl(void)
{
    const char *name = "libssl.so.3";
    void *handle = dlopen(name, RTLD_NOW), *found;

    if (handle == NULL) {
        name = "libssl.so.1.1";
        handle = dlopen(name, RTLD_NOW);
    }
    if (handle == NULL)
        return 0;
#define CLIENT_FIND(result, name, arguments)                                  \
    found = dlsym(handle, #name);                                             \
    require(found != NULL, #name);                                            \
    memcpy(&client_lib.name, &found, sizeof found);
    CLIENT_FUNCTIONS(CLIENT_FIND)
    return 1;
}

/* Begin the server's side; before any other call of OpenSSL. */
static inline void open_server(void)
{
    const char *missing = tls_open("libssl.so.3");

    if (missing != NULL)
        missing = tls_open("libssl.so.1.1");
    require(missing == NULL, "there is OpenSSL");
}

static inline tls_context *new_server(uint32_t minimum, const char *protocols,
                                      uint32_t len)
{
    tls_context *made = tls_context_new("server.pem", "server.pem", "DEFAULT",
                                        minimum, 0, protocols, len);

    require(made != NULL, "server.pem is in the current folder");
    return made;
}

#endif
