// A library for LD_PRELOAD that makes one system call on files fail, hang or
// kill. CAIRN_SHIM says which: ACTION:CALLS:AT:FOLDER, for example
// `eio:fsync:3:/data/run`.
//
// ACTION is eio (the call fails), full (this one and all later writes, opens to
// change a file and links fail with ENOSPC), hang (it never returns) or kill
// (SIGKILL, after half of the bytes were written). CALLS is write, fsync, open,
// rename or any. AT is the number of the call, counted in each process from 1.
// FOLDER is where the files lie; other files are left alone. Only the rank
// CAIRN_SHIM_RANK is concerned, if it is set. The file CAIRN_SHIM_MET gets the
// call and the path when the fault occurs.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum call { call_write = 1, call_fsync = 2, call_open = 4, call_rename = 8 };
enum action { action_none, action_eio, action_full, action_hang, action_kill };

static enum action action;
static int calls;
static long at;
static char folder[PATH_MAX];
static atomic_long count;
static atomic_int full;

__attribute__((constructor)) static void read_wish(void) {
  const char* wish = getenv("CAIRN_SHIM");
  const char* rank = getenv("CAIRN_SHIM_RANK");
  const char* own = getenv("RANK");
  char what[8];
  char which[8];
  if (wish == NULL ||
      (rank != NULL && (own == NULL || strcmp(rank, own) != 0)) ||
      sscanf(
          wish,
          "%7[a-z]:%7[a-z]:%ld:%4095[^\n]",
          what,
          which,
          &at,
          folder) != 4) {
    return;
  }
  calls = strcmp(which, "write") == 0 ? call_write
      : strcmp(which, "fsync") == 0   ? call_fsync
      : strcmp(which, "open") == 0    ? call_open
      : strcmp(which, "rename") == 0  ? call_rename
                                      : ~0;
  action = strcmp(what, "eio") == 0 ? action_eio
      : strcmp(what, "full") == 0   ? action_full
      : strcmp(what, "hang") == 0   ? action_hang
      : strcmp(what, "kill") == 0   ? action_kill
                                    : action_none;
}

#define REAL(type, name, ...)                             \
  static type (*real)(__VA_ARGS__);                       \
  if (real == NULL) {                                     \
    real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name); \
  }

/// The path that was last found to lie in the folder.
static _Thread_local char found[PATH_MAX];

static int is_below(const char* path) {
  const size_t size = strlen(folder);
  if (strncmp(path, folder, size) != 0 ||
      (path[size] != '/' && path[size] != '\0')) {
    return 0;
  }
  snprintf(found, sizeof found, "%s", path);
  return 1;
}

static int is_file_below(int fd) {
  char link[64];
  char path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 0) {
    return 0;
  }
  path[size] = '\0';
  return is_below(path);
}

static int is_path_below(int at_folder, const char* path) {
  if (path[0] == '/') {
    return is_below(path);
  }
  if (at_folder != AT_FDCWD) {
    return is_file_below(at_folder);
  }
  char here[PATH_MAX];
  return getcwd(here, sizeof here) != NULL && is_below(here);
}

static void note(enum call call) {
  const char* name = call == call_write ? "write"
      : call == call_fsync              ? "fsync"
      : call == call_open               ? "open"
                                        : "rename";
  const char* met = getenv("CAIRN_SHIM_MET");
  if (met != NULL) {
    REAL(int, open, const char*, int, ...)
    const int fd = real(met, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    dprintf(fd, "%s %s\n", name, found);
    close(fd);
  }
}

/// True when the call is the one of the wish, or needs room on a full disk.
static int meets(enum call call, int needs_room) {
  if ((calls & call) != 0 && atomic_fetch_add(&count, 1) + 1 == at) {
    note(call);
    if (action == action_hang) {
      for (;;) {
        pause();
      }
    }
    if (action == action_full) {
      atomic_store(&full, 1);
    }
    return 1;
  }
  return needs_room && atomic_load(&full);
}

static int refuse(void) {
  if (action == action_kill) {
    raise(SIGKILL);
  }
  errno = action == action_full ? ENOSPC : EIO;
  return -1;
}

ssize_t write(int fd, const void* bytes, size_t size) {
  REAL(ssize_t, write, int, const void*, size_t)
  if (action != action_none && is_file_below(fd) && meets(call_write, 1)) {
    if (action == action_kill) {
      real(fd, bytes, size / 2);
    }
    return refuse();
  }
  return real(fd, bytes, size);
}

ssize_t writev(int fd, const struct iovec* parts, int number) {
  REAL(ssize_t, writev, int, const struct iovec*, int)
  return action != action_none && is_file_below(fd) && meets(call_write, 1)
      ? refuse()
      : real(fd, parts, number);
}

ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  REAL(ssize_t, pwrite, int, const void*, size_t, off_t)
  if (action != action_none && is_file_below(fd) && meets(call_write, 1)) {
    if (action == action_kill) {
      real(fd, bytes, size / 2, offset);
    }
    return refuse();
  }
  return real(fd, bytes, size, offset);
}

ssize_t pwrite64(int fd, const void* bytes, size_t size, off_t offset) {
  return pwrite(fd, bytes, size, offset);
}

int fsync(int fd) {
  REAL(int, fsync, int)
  return action != action_none && is_file_below(fd) && meets(call_fsync, 0)
      ? refuse()
      : real(fd);
}

int fdatasync(int fd) {
  REAL(int, fdatasync, int)
  return action != action_none && is_file_below(fd) && meets(call_fsync, 0)
      ? refuse()
      : real(fd);
}

/// Files without a name are left out: where a disk has none, Cairn does
/// without.
static int may_open(int at_folder, const char* path, int flags) {
  const int changes = flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC);
  const int nameless = (flags & O_TMPFILE) == O_TMPFILE;
  return action == action_none || changes == 0 || nameless ||
      !is_path_below(at_folder, path) || !meets(call_open, 1);
}

#define MODE                                                        \
  mode_t mode = 0;                                                  \
  if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) { \
    va_list list;                                                   \
    va_start(list, flags);                                          \
    mode = va_arg(list, mode_t);                                    \
    va_end(list);                                                   \
  }

int open(const char* path, int flags, ...) {
  MODE REAL(int, open, const char*, int, ...) return may_open(
      AT_FDCWD,
      path,
      flags)
      ? real(path, flags, mode)
      : refuse();
}

int open64(const char* path, int flags, ...) {
  MODE REAL(int, open64, const char*, int, ...) return may_open(
      AT_FDCWD,
      path,
      flags)
      ? real(path, flags, mode)
      : refuse();
}

int openat(int at_folder, const char* path, int flags, ...) {
  MODE REAL(int, openat, int, const char*, int, ...) return may_open(
      at_folder,
      path,
      flags)
      ? real(at_folder, path, flags, mode)
      : refuse();
}

int openat64(int at_folder, const char* path, int flags, ...) {
  MODE REAL(int, openat64, int, const char*, int, ...) return may_open(
      at_folder,
      path,
      flags)
      ? real(at_folder, path, flags, mode)
      : refuse();
}

int renameat2(
    int from_folder,
    const char* from,
    int to_folder,
    const char* to,
    unsigned flags) {
  REAL(int, renameat2, int, const char*, int, const char*, unsigned)
  return action != action_none && is_path_below(to_folder, to) &&
          meets(call_rename, 0)
      ? refuse()
      : real(from_folder, from, to_folder, to, flags);
}

int rename(const char* from, const char* to) {
  REAL(int, rename, const char*, const char*)
  return action != action_none && is_path_below(AT_FDCWD, to) &&
          meets(call_rename, 0)
      ? refuse()
      : real(from, to);
}

int linkat(
    int from_folder,
    const char* from,
    int to_folder,
    const char* to,
    int flags) {
  REAL(int, linkat, int, const char*, int, const char*, int)
  return action != action_none && is_path_below(to_folder, to) &&
          meets(call_rename, 1)
      ? refuse()
      : real(from_folder, from, to_folder, to, flags);
}
