/* A file system that lacks something, for one process: preloaded before the C library, told by variables.
 *
 * FS_NO_EXCHANGE, FS_NO_LOCKS and FS_NO_FOLDER_FLUSH are the errno that an exchange of two names, a lock of a file
 * and a flush of a folder end with. FS_SLOW_RENAME is how many microseconds a rename takes after it is done.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int told(const char *name)
{
    const char *value = getenv(name);
    return value ? atoi(value) : 0;
}

int renameat2(int from, const char *old, int to, const char *new, unsigned flags)
{
    int lacking = told("FS_NO_EXCHANGE");
    if (lacking) {
        errno = lacking;
        return -1;
    }
    int (*real)(int, const char *, int, const char *, unsigned) = dlsym(RTLD_NEXT, "renameat2");
    return real(from, old, to, new, flags);
}

int rename(const char *old, const char *new)
{
    int (*real)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");
    int result = real(old, new);
    int kept = errno;
    if (told("FS_SLOW_RENAME"))
        usleep(told("FS_SLOW_RENAME"));
    errno = kept;
    return result;
}

int flock(int fd, int operation)
{
    int lacking = told("FS_NO_LOCKS");
    if (lacking) {
        errno = lacking;
        return -1;
    }
    int (*real)(int, int) = dlsym(RTLD_NEXT, "flock");
    return real(fd, operation);
}

int fsync(int fd)
{
    struct stat status;
    int lacking = told("FS_NO_FOLDER_FLUSH");
    if (lacking && !fstat(fd, &status) && S_ISDIR(status.st_mode)) {
        errno = lacking;
        return -1;
    }
    int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
    return real(fd);
}
