/* tls_library.h -- OpenSSL's functions by address, and what contexts and
 * sessions share.  Never part of an interface to Python. */
#ifndef ASERVE_TLS_LIBRARY_H
#define ASERVE_TLS_LIBRARY_H
#include "tls.h"

typedef int (*tls_bio_read)(void *, char *, int);
typedef int (*tls_bio_write)(void *, const char *, int);
typedef long (*tls_bio_ctrl)(void *, int, long, void *);
typedef int (*tls_passphrase)(char *, int, int, void *);
typedef int (*tls_alpn_select)(void *, const unsigned char **, unsigned char *,
                               const unsigned char *, unsigned, void *);

/* Each is in OpenSSL from 1.1.1 on, and no macro there. */
#define TLS_FUNCTIONS(X)                                                      \
    X(const void *, TLS_server_method, (void))                                \
    X(void *, SSL_CTX_new, (const void *))                                    \
    X(void, SSL_CTX_free, (void *))                                           \
    X(long, SSL_CTX_ctrl, (void *, int, long, void *))                        \
    X(uint64_t, SSL_CTX_set_options, (void *, uint64_t))                      \
    X(int, SSL_CTX_set_cipher_list, (void *, const char *))                   \
    X(int, SSL_CTX_use_certificate_chain_file, (void *, const char *))        \
    X(int, SSL_CTX_use_PrivateKey_file, (void *, const char *, int))          \
    X(int, SSL_CTX_check_private_key, (const void *))                         \
    X(void, SSL_CTX_set_default_passwd_cb, (void *, tls_passphrase))          \
    X(void, SSL_CTX_set_alpn_select_cb, (void *, tls_alpn_select, void *))    \
    X(void *, SSL_new, (void *))                                              \
    X(void, SSL_free, (void *))                                               \
    X(void, SSL_set_bio, (void *, void *, void *))                            \
    X(void, SSL_set_accept_state, (void *))                                   \
    X(int, SSL_do_handshake, (void *))                                        \
    X(int, SSL_read, (void *, void *, int))                                   \
    X(int, SSL_write, (void *, const void *, int))                            \
    X(int, SSL_shutdown, (void *))                                            \
    X(int, SSL_pending, (const void *))                                       \
    X(int, SSL_get_error, (const void *, int))                                \
    X(const char *, SSL_get_version, (const void *))                          \
    X(const void *, SSL_get_current_cipher, (const void *))                   \
    X(const char *, SSL_CIPHER_get_name, (const void *))                      \
    X(void, SSL_get0_alpn_selected,                                           \
      (const void *, const unsigned char **, unsigned *))                     \
    X(void, ERR_clear_error, (void))                                          \
    X(unsigned long, ERR_peek_last_error, (void))                             \
    X(const char *, ERR_reason_error_string, (unsigned long))                 \
    X(void *, BIO_meth_new, (int, const char *))                              \
    X(int, BIO_meth_set_read, (void *, tls_bio_read))                         \
    X(int, BIO_meth_set_write, (void *, tls_bio_write))                       \
    X(int, BIO_meth_set_ctrl, (void *, tls_bio_ctrl))                         \
    X(void *, BIO_new, (const void *))                                        \
    X(void, BIO_set_data, (void *, void *))                                   \
    X(void *, BIO_get_data, (void *))                                         \
    X(void, BIO_set_init, (void *, int))                                      \
    X(void, BIO_set_flags, (void *, int))                                     \
    X(void, BIO_clear_flags, (void *, int))

#define TLS_POINTER(result, name, arguments) result(*name) arguments;

/* Written by tls_open alone, once. */
typedef struct {
    TLS_FUNCTIONS(TLS_POINTER)
} tls_library;

#define SHARED __attribute__((visibility("hidden")))

extern SHARED tls_library tls_lib;

struct tls_context {
    void *ssl_ctx;
    uint32_t nusers; /* its owner, and its sessions; atomic */
    uint32_t protocols_len;
    unsigned char protocols[255];
};

/* tls.c: make the kind of BIO that sessions have.  Returns 0, or -1: no
 * memory. */
SHARED int tls_open_bio(void);

#endif
