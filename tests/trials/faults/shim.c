/* Fails one call of a process with a chosen errno: preloaded, armed by faults_arm.

   Counted are calls on files below a folder, and allocations that FFmpeg's libraries ask for.
   Before it is armed, everything passes. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum kind { OPEN, READ, WRITE, FSYNC, RENAME, UNLINK, MKDIR, STAT, LIST, MALLOC, KINDS };

#define MOST_FILES 4096
#define MOST_LIBRARIES 16

static char root[4096];
static size_t root_length;
static int armed_kind = -1, armed_error;
static long armed_call;
static atomic_long calls[KINDS];
static atomic_char is_ours[MOST_FILES]; /* by file descriptor */
static struct { uintptr_t begin, end; } libraries[MOST_LIBRARIES];
static int library_count;

static int note_library(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    const char *name = strrchr(info->dlpi_name, '/');
    if (!name || (strncmp(name, "/libav", 6) && strncmp(name, "/libsw", 6)))
        return 0;
    for (int i = 0; i < info->dlpi_phnum && library_count < MOST_LIBRARIES; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && part->p_flags & PF_X) {
            libraries[library_count].begin = info->dlpi_addr + part->p_vaddr;
            libraries[library_count++].end = info->dlpi_addr + part->p_vaddr + part->p_memsz;
        }
    }
    return 0;
}

/* Fail the call-th call of a kind from now on (0: none) on files below a folder. */
void faults_arm(const char *folder, int kind, long call, int error)
{
    dl_iterate_phdr(note_library, NULL);
    armed_kind = kind, armed_call = call, armed_error = error;
    strncpy(root, folder, sizeof root - 1);
    root_length = strlen(root);
}

/* Calls of a kind since it was armed. */
long faults_count(int kind) { return calls[kind]; }

static int fails(enum kind kind)
{
    long call = atomic_fetch_add(&calls[kind], 1) + 1;
    if ((int)kind != armed_kind || call != armed_call)
        return 0;
    errno = armed_error;
    return 1;
}

static int below(const char *path) { return root_length && path && !strncmp(path, root, root_length); }

static int ours(int file) { return file >= 0 && file < MOST_FILES && is_ours[file]; }

static int at_ours(int folder, const char *path) { return below(path) || (path && path[0] != '/' && ours(folder)); }

static int keep(int file, int is_below)
{
    if (file >= 0 && file < MOST_FILES)
        is_ours[file] = (char)is_below;
    return file;
}

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

/* --- open */

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

#define OPEN_AS(name) \
    int name(const char *path, int flags, ...) \
    { \
        MODE(flags) \
        if (below(path) && fails(OPEN)) \
            return -1; \
        return keep(REAL(name)(path, flags, mode), below(path)); \
    }
OPEN_AS(open)
OPEN_AS(open64)

#define OPENAT_AS(name) \
    int name(int folder, const char *path, int flags, ...) \
    { \
        MODE(flags) \
        int is_below = at_ours(folder, path); \
        if (is_below && fails(OPEN)) \
            return -1; \
        return keep(REAL(name)(folder, path, flags, mode), is_below); \
    }
OPENAT_AS(openat)
OPENAT_AS(openat64)

int close(int file)
{
    if (file >= 0 && file < MOST_FILES)
        is_ours[file] = 0;
    return REAL(close)(file);
}

/* --- with a file descriptor */

#define OF_FILE(kind, type, name, parameters, arguments) \
    type name parameters \
    { \
        if (ours(file) && fails(kind)) \
            return -1; \
        return REAL(name) arguments; \
    }
OF_FILE(READ, ssize_t, read, (int file, void *to, size_t size), (file, to, size))
OF_FILE(READ, ssize_t, pread64, (int file, void *to, size_t size, off64_t at), (file, to, size, at))
OF_FILE(WRITE, ssize_t, write, (int file, const void *from, size_t size), (file, from, size))
OF_FILE(WRITE, ssize_t, pwrite64, (int file, const void *from, size_t size, off64_t at), (file, from, size, at))
OF_FILE(WRITE, int, ftruncate, (int file, off_t size), (file, size))
OF_FILE(WRITE, int, ftruncate64, (int file, off64_t size), (file, size))
OF_FILE(FSYNC, int, fsync, (int file), (file))
OF_FILE(FSYNC, int, fdatasync, (int file), (file))
OF_FILE(STAT, int, fstat, (int file, struct stat *to), (file, to))
OF_FILE(STAT, int, fstat64, (int file, struct stat64 *to), (file, to))

/* --- with a path */

#define OF_PATH(kind, type, none, name, parameters, arguments) \
    type name parameters \
    { \
        if (below(path) && fails(kind)) \
            return none; \
        return REAL(name) arguments; \
    }
#define OF_PATH_AT(kind, name, parameters, arguments) \
    int name parameters \
    { \
        if (at_ours(folder, path) && fails(kind)) \
            return -1; \
        return REAL(name) arguments; \
    }
OF_PATH(RENAME, int, -1, rename, (const char *path, const char *to), (path, to))
OF_PATH(RENAME, int, -1, link, (const char *path, const char *to), (path, to))
OF_PATH(UNLINK, int, -1, unlink, (const char *path), (path))
OF_PATH(UNLINK, int, -1, rmdir, (const char *path), (path))
OF_PATH_AT(UNLINK, unlinkat, (int folder, const char *path, int flags), (folder, path, flags))
OF_PATH(MKDIR, int, -1, mkdir, (const char *path, mode_t mode), (path, mode))
OF_PATH(STAT, int, -1, stat, (const char *path, struct stat *to), (path, to))
OF_PATH(STAT, int, -1, stat64, (const char *path, struct stat64 *to), (path, to))
OF_PATH(STAT, int, -1, lstat, (const char *path, struct stat *to), (path, to))
OF_PATH(STAT, int, -1, lstat64, (const char *path, struct stat64 *to), (path, to))
OF_PATH_AT(STAT, fstatat, (int folder, const char *path, struct stat *to, int flags), (folder, path, to, flags))
OF_PATH_AT(STAT, fstatat64, (int folder, const char *path, struct stat64 *to, int flags), (folder, path, to, flags))
OF_PATH(LIST, DIR *, NULL, opendir, (const char *path), (path))

/* --- memory of FFmpeg's libraries */

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static int is_refused(void *caller)
{
    for (int i = 0; i < library_count; i++)
        if ((uintptr_t)caller >= libraries[i].begin && (uintptr_t)caller < libraries[i].end)
            return fails(MALLOC);
    return 0;
}

#define CALLER __builtin_return_address(0)

void *malloc(size_t size) { return is_refused(CALLER) ? NULL : __libc_malloc(size); }

void *calloc(size_t count, size_t size) { return is_refused(CALLER) ? NULL : __libc_calloc(count, size); }

void *realloc(void *old, size_t size) { return is_refused(CALLER) ? NULL : __libc_realloc(old, size); }

int posix_memalign(void **to, size_t align, size_t size)
{
    if (is_refused(CALLER))
        return ENOMEM;
    void *found = __libc_memalign(align, size);
    if (!found)
        return ENOMEM;
    *to = found;
    return 0;
}
