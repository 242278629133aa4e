/* Makes a program with OpenSSL write the secrets of its TLS connections.
 *
 * Preloaded into a client that has no option for it, such as kcat. They are appended to the file
 * that SSLKEYLOGFILE names, in the format of NSS. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef void (*callback)(const void *session, const char *line);

static void append(const void *session, const char *line) {
    (void)session;
    const char *name = getenv("SSLKEYLOGFILE");
    FILE *file = name ? fopen(name, "a") : NULL;
    if (!file) return;
    fprintf(file, "%s\n", line);
    fclose(file);
}

void *SSL_CTX_new(const void *method) {
    static void *(*own)(const void *);
    static void (*set_callback)(void *, callback);
    if (!own) own = (void *(*)(const void *))dlsym(RTLD_NEXT, "SSL_CTX_new");
    if (!set_callback)
        set_callback = (void (*)(void *, callback))dlsym(RTLD_NEXT, "SSL_CTX_set_keylog_callback");
    void *context = own ? own(method) : NULL;
    if (context && set_callback) set_callback(context, append);
    return context;
}
