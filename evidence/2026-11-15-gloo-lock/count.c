/* Ran on commit 5a06415 (2026-11-15) */
/* How often epoll_wait is called: LD_PRELOAD=./count.so, then count() by ctypes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/epoll.h>

static unsigned long calls;

int epoll_wait(int queue, struct epoll_event *events, int most, int timeout)
{
    static int (*next)(int, struct epoll_event *, int, int);
    if (!next)
        next = dlsym(RTLD_NEXT, "epoll_wait");
    __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
    return next(queue, events, most, timeout);
}

unsigned long count(void) { return calls; }
